"""What another process does with a box: `peer.py ADDRESS KEY ACTION [COUNT]`."""

from __future__ import annotations

import sys
import time

import numpy as np

from knltrain.communication.memory_box.local import Buffer, SoftMemoryBox
from knltrain.communication.shared_memory.atomics import take


def main() -> None:
    address, key, action, *rest = sys.argv[1:]
    box = SoftMemoryBox.connect(address)
    center = box.open(int(key))
    if action == "accumulate":
        own = box.create_buffer(center.size)
        own.write(np.arange(center.size, dtype=np.float32) % 7 + 1)
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(rest[0])):
            center.accumulate(own)
        own.free()
    elif action == "notify":
        sys.stdin.readline()
        center.write(np.full(center.size, 5, np.float32))
        center.notify(3)
    elif action == "hold":
        hold(center)
    box.close()


def hold(center: Buffer) -> None:
    """Take the lock of a stripe, as an operation does, and sleep under it."""
    take(center._locks, center._first, center._identity, 1)
    print("inside", flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    main()
