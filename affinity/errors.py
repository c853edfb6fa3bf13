"""Errors of this package.

AffinityError
├── TopologyError       the files that describe the machine are missing or make no sense
│   └── NoMachine       there is a file, but it describes no machine at all
├── PlacementError      the cpus asked for cannot be had
│   └── TooManyWorkers  there are fewer places than workers
└── MemoryPolicyError   memory cannot be put where it was asked to be
"""

from __future__ import annotations


class AffinityError(Exception):
    """Base of all errors of this package, also raised for a malformed cpu list."""


class TopologyError(AffinityError):
    """The files that describe the machine are missing or make no sense."""


class NoMachine(TopologyError):  # noqa: N818
    """The file is of no format that describes a machine."""


class PlacementError(AffinityError):
    """The requested cpus or groups of cores are not available on this machine."""


class TooManyWorkers(PlacementError):  # noqa: N818
    """There are places for `most` workers only."""

    def __init__(self, message: str, most: int) -> None:
        super().__init__(message)
        self.most = most


class MemoryPolicyError(AffinityError):
    """Memory cannot be placed as requested; `errno` is the kernel's, 0 if it was not asked."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno
