"""Every error knltrain raises on purpose; each says what was given, what was expected, the way out.

    KnltrainError
      ConfigError        a run description that cannot be used
      DataError          images or labels that cannot be read, or do not fit together
      BrokenPicture      a picture that cannot be read; its set may go on without it
      NetworkError       layers or parameter vectors that do not fit together
      SegmentError       the shared memory segment cannot be created or attached
      CheckpointError    a checkpoint that cannot be written, read or continued from
      DamagedCheckpoint  a checkpoint that is not what was written
      RunFolderError     a run folder that cannot be created or read
      KernelCacheError   a folder for compiled kernels that cannot be written
      CollectiveError    a collective operation that its arguments, or other ranks, do not allow
      DeviceError        a device, such as a GPU, that fails or has too little memory
      ElasticError       a call of knltrain.elastic at a moment when it cannot be done
      ExchangeTimeout    workers that did not reach an exchange in time
      PeerLost           another worker of the run is gone
      MisplacedMemory    a worker's memory is not where it was to be
      RunAborted         the run was stopped by a signal
      RunStopped         the run was stopped after a step, with a checkpoint to go on from
      WorkerFailed       a worker process ended with an error
      IncompleteRun      a run that came to its end, but could not keep its model or its result
      NonFiniteLoss      the loss became infinite or not a number

`exit_code` is the status a command ends with: 2 for bad input, 75 for a run that is to be resumed,
128 + signal for one that a signal has ended, 1 for everything else.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import ClassVar, TypeVar

Item = TypeVar("Item", bound=Hashable)

FAILURE = 1
BAD_INPUT = 2
RESUMABLE = 75
"""EX_TEMPFAIL of sysexits.h: to be tried again."""
SIGNALLED = 128


class KnltrainError(RuntimeError):
    """Base of all errors below: one message for the user, and the command's exit status.

    A RuntimeError, as those of torch's own process groups are: programs that catch these go on.
    """

    exit_code: int = FAILURE


class ConfigError(KnltrainError):
    """A run description that cannot be used."""

    exit_code = BAD_INPUT


class DataError(KnltrainError):
    """Images or labels that cannot be read, or do not fit together."""

    exit_code = BAD_INPUT


class BrokenPicture(DataError):  # noqa: N818
    """A picture that cannot be read; its set may go on without it."""


class NetworkError(KnltrainError):
    """Layers or parameter vectors that do not fit together."""

    exit_code = BAD_INPUT


class SegmentError(KnltrainError):
    """The shared memory segment cannot be created or attached."""

    exit_code = BAD_INPUT


class CheckpointError(KnltrainError):
    """A checkpoint that cannot be written, read or continued from."""

    exit_code = BAD_INPUT


class DamagedCheckpoint(CheckpointError):  # noqa: N818
    """A checkpoint that is not what was written; the one before it may be."""


class RunFolderError(KnltrainError):
    """A run folder that cannot be created or read."""

    exit_code = BAD_INPUT


class KernelCacheError(KnltrainError):
    """A folder for compiled kernels that cannot be written."""

    exit_code = BAD_INPUT


class CollectiveError(KnltrainError):
    """A collective operation that its arguments, or those of other ranks, do not allow."""

    exit_code = BAD_INPUT


class DeviceError(KnltrainError):
    """A device, such as a GPU, that fails or has too little memory."""


class ElasticError(KnltrainError):
    """A call of `knltrain.elastic` at a moment when it cannot be done."""

    exit_code = BAD_INPUT


class ExchangeTimeout(KnltrainError):  # noqa: N818
    """Workers that did not reach an exchange in time."""


class PeerLost(KnltrainError):  # noqa: N818
    """Another worker of the run is gone."""


class MisplacedMemory(KnltrainError):  # noqa: N818
    """A worker's memory is not where it was to be."""


class RunAborted(KnltrainError):  # noqa: N818
    """The run was stopped by a signal; ends with 128 + its number (130 for SIGINT, 143 SIGTERM)."""

    def __init__(self, message: str, signal_number: int = 2) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = SIGNALLED + signal_number


class RunStopped(KnltrainError):  # noqa: N818
    """The run was stopped after a step, as it was asked to, and can be resumed from there."""

    exit_code = RESUMABLE


def process_name(rank: int) -> str:
    """A worker's name in messages; below 0: that of the data pool."""
    return f"worker {rank}" if rank >= 0 else "the data pool"


class WorkerFailed(KnltrainError):  # noqa: N818
    """A worker process, or a data pool, ended with an error."""

    def __init__(self, rank: int, cause: str, verb: str = "failed: ") -> None:
        super().__init__(f"{process_name(rank)} {verb}{cause}")
        self.rank = rank
        self.cause = cause


class IncompleteRun(KnltrainError):  # noqa: N818
    """A run that came to its end, but could not keep its model or its result in `run_folder`."""

    def __init__(self, message: str, run_folder: Path) -> None:
        super().__init__(message)
        self.run_folder = run_folder


class NonFiniteLoss(KnltrainError):  # noqa: N818
    """The loss became infinite or not a number."""

    way_out: ClassVar[str] = "lower learning_rate.base, or give learning_rate.warmup_steps"

    def __init__(self, step: int, layer: str | None) -> None:
        place = f"layer '{layer}' is the first whose output" if layer else "the loss"
        super().__init__(f"step {step}: {place} is not finite; {self.way_out}")
        self.step = step
        self.layer = layer


def first_repeated(given: Iterable[Item]) -> Item | None:
    """The first that equals one before it; None where all differ."""
    known: set[Item] = set()
    for each in given:
        if each in known:
            return each
        known.add(each)
    return None


def unknown_name(kind: str, given: str, known: Iterable[str]) -> str:
    """Message for a name that is not among `known`, with the closest known one if any is close.

    Dotted names also match by their last part, so that `batch` finds `train.batch`.
    """
    names = sorted(known)
    message = f"unknown {kind} '{given}': expected one of {', '.join(repr(n) for n in names)}"
    closest = _closest(given, names)
    return f"{message}; did you mean '{closest}'?" if closest else message


def _closest(given: str, names: list[str]) -> str | None:
    by_key = {name.rpartition(".")[2].lower(): name for name in names}
    by_key |= {name.lower(): name for name in names}
    for key in (given.lower(), given.rpartition(".")[2].lower()):
        if close := difflib.get_close_matches(key, by_key, n=1):
            return by_key[close[0]]
    return None
