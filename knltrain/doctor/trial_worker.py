"""One worker of the doctor's self-test: ``python -m knltrain.doctor.trial_worker RANK FD CPUS``."""

from __future__ import annotations

import sys

import numpy as np

from affinity import allowed_cpus, format_cpulist
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from vectorized_ops.reference import elastic

_START = 2.0
_MOVING_RATE = 0.25
"""With these two, every value that a right exchange gives is a float32 without rounding."""

_FAILED = 1


def take_part(rank: int, fd: int, cpus: str) -> str:
    """Do one exchange as worker `rank` of the segment behind `fd`; return its fault, or "".

    `cpus` is the cpu list that this process should run on.
    """
    segment = Segment.attach(fd)
    got = format_cpulist(allowed_cpus())
    if got != cpus:
        segment.abort(_FAILED)  # Or the others would wait for this worker.
        return f"runs on cpus {got} instead of {cpus}"
    transport = NodeShared(segment, rank)
    transport.start_from(np.full(segment.size, _START, np.float32) if rank == 0 else None)
    transport.local += rank + 1
    transport.exchange(EASGD(_MOVING_RATE, elastic))
    wrong = _wrong_values(transport)
    transport.barrier()
    transport.close()
    return wrong


def _wrong_values(transport: NodeShared) -> str:
    """Compare with local_i = s + (1 - a)(i + 1), center = s + a(1 + ... + P), s start, a rate."""
    pulled = _MOVING_RATE * sum(range(1, transport.workers + 1))
    expected = [
        ("local", transport.local, _START + (1 - _MOVING_RATE) * (transport.rank + 1)),
        ("center", transport.center, _START + pulled),
    ]
    return ", ".join(
        f"{np.count_nonzero(values != value)} of {values.size} values of the {name} are not {value}"
        for name, values, value in expected
        if np.any(values != value)
    )


if __name__ == "__main__":
    sys.exit(take_part(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]) or None)
