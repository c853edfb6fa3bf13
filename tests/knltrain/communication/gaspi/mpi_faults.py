"""What rank 1 does to rank 0, by name: `mpiexec -n 2 ... -m (this module) NAME`."""

from __future__ import annotations

import sys
import time

import numpy as np

from knltrain.communication.gaspi import AddressSpace, MPIRanks


def computes() -> None:
    """Rank 1 is outside of MPI until data have come, but for the thread that its ranks have."""
    space = AddressSpace(MPIRanks(), timeout_seconds=60)
    segment = space.create_segment(8_000_000, 1)
    if space.rank == 0:
        segment.write_notify(np.ones(1_000_000, np.float32), 1, 0, 0, 1)
        space.wait()
        print("arrived", flush=True)
    else:
        values = np.ones((200, 200))
        limit = time.monotonic() + 60
        while segment.memory[3_999_999] == 0 and time.monotonic() < limit:
            np.dot(values, values)
    space.close()


def is_stopped() -> None:
    """Rank 1 makes no progress at all for a while, as if it were stopped."""
    space = AddressSpace(MPIRanks(progress=False), timeout_seconds=60)
    segment = space.create_segment(8_000_000, 1)
    if space.rank == 0:
        segment.write_notify(np.ones(1_000_000, np.float32), 1, 0, 0, 1)
        space.wait(timeout_seconds=0.5)
    else:
        time.sleep(60)


if __name__ == "__main__":
    {"computes": computes, "is_stopped": is_stopped}[sys.argv[1]]()
