"""Emulates cables with latency between hosts and their switch.

    python -m knltrain.bench.nodes.cables LATENCY_SECONDS SWITCH HOST ...

SWITCH and HOST are processes in the namespaces. Each cable has a tap device at either end, ``eth0``
of a host and ``port0`` and so on at the switch. This process carries frames between the two: to the
switch after the latency, to the host at once. So the latency from host to host is the given one,
plus the time that this process takes.

Frames have up to 64 KiB, as the kernel gives them to a card with segmentation offload. The kernel
has netem for the same purpose, but not every kernel is built with it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

_SET_INTERFACE, _SET_OFFLOAD = 0x400454CA, 0x400454D0  # TUNSETIFF, TUNSETOFFLOAD
_TAP = 0x0002 | 0x1000 | 0x4000  # IFF_TAP, no further header, virtio's header of offloads
_OFFLOADS = 0x01 | 0x02 | 0x04 | 0x08  # checksums, TCP over IPv4 and IPv6, congestion marks
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_TIMER_SLACK = 29  # PR_SET_TIMERSLACK
_LARGEST_FRAME = 2**17
_AT_ONCE = 16
"""Frames that are read from a device before others have their turn."""

_LIBRARY = ctypes.CDLL(None, use_errno=True)


def device(namespace_of: int, name: str) -> int:
    """Return the descriptor of a new tap device in a process's network; this process enters it."""
    with Path(f"/proc/{namespace_of}/ns/net").open("rb") as network:
        if _LIBRARY.setns(network.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"setns to the network of process {namespace_of}")
    made = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(made, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _TAP))
    fcntl.ioctl(made, _SET_OFFLOAD, _OFFLOADS)
    return made


def carry(pairs: list[tuple[int, int]], latency_seconds: float) -> None:
    """Carry frames between (host's device, switch's device) for ever."""
    ports = dict(pairs)
    hosts = {port: host for host, port in pairs}
    under_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        wait = max(under_way[0][0] - time.monotonic(), 0.0) if under_way else None
        ready, _, _ = select.select([*ports, *hosts], [], [], wait)
        due = time.monotonic() + latency_seconds
        for source in ready:
            for frame in _frames(source):
                if source in ports:
                    under_way.append((due, ports[source], frame))
                else:
                    _hand_over(hosts[source], frame)
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            _hand_over(*under_way.popleft()[1:])


def _frames(source: int) -> list[bytes]:
    found: list[bytes] = []
    with suppress(OSError):  # no more, or the device is down
        while len(found) < _AT_ONCE:
            found.append(os.read(source, _LARGEST_FRAME))
    return found


def _hand_over(target: int, frame: bytes) -> None:
    """Write a frame; drop it where the device is down or full, as a cable does."""
    with suppress(OSError):
        os.write(target, frame)


def main() -> None:
    """Make the devices, report that, and carry."""
    latency_seconds, switch, *hosts = float(sys.argv[1]), *map(int, sys.argv[2:])
    _LIBRARY.prctl(_TIMER_SLACK, 1)  # nanoseconds by which a wait may be late
    try:
        pairs = [
            (device(host, "eth0"), device(switch, f"port{number}"))
            for number, host in enumerate(hosts)
        ]
    except OSError as error:
        sys.exit(f"no tap devices: {error}")
    print("laid", flush=True)
    carry(pairs, latency_seconds)


if __name__ == "__main__":
    main()
