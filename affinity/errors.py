"""Errors of this package.

AffinityError
├── TopologyError    the files that describe the machine are missing or make no sense
└── PlacementError   the cpus asked for cannot be had
"""

from __future__ import annotations


class AffinityError(Exception):
    """Base of all errors of this package, also raised for a malformed cpu list."""


class TopologyError(AffinityError):
    """The files that describe the machine are missing or make no sense."""


class PlacementError(AffinityError):
    """The cpus or groups of cores asked for cannot be had on this machine."""
