"""One-sided communication as in GASPI: segments, queues, notifications, timeouts.

A segment is here that of GASPI: memory at each rank that the other ranks write into.

space = AddressSpace(MPIRanks())
segment = space.create_segment(4096, notifications=8)
segment.write_notify(data, rank=1, offset_bytes=0, notification=3, value=7)
space.wait()

segment.notify_waitsome(timeout_seconds=10)  # at rank 1: 3
segment.notify_reset(3)  # 7, and the data are in segment.memory
"""

from knltrain.communication.gaspi.address_space import AddressSpace
from knltrain.communication.gaspi.group import Group
from knltrain.communication.gaspi.mpi_ranks import MPIRanks
from knltrain.communication.gaspi.ranks import Extent, Ranks, RemoteMemory
from knltrain.communication.gaspi.segment import Segment
from knltrain.communication.gaspi.thread_ranks import ThreadRanks, thread_ranks

__all__ = [
    "AddressSpace",
    "Extent",
    "Group",
    "MPIRanks",
    "Ranks",
    "RemoteMemory",
    "Segment",
    "ThreadRanks",
    "thread_ranks",
]
