"""What each worker measured of its steps, and how rank 0 comes to know it."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from knltrain.clocks import BESIDES, COSTS
from knltrain.exchange.transports.team import Team, of_all_workers

STATISTICS: Final = ("mean", "median", "p05", "p95", "max")
"""Of the seconds in a step, over the steps of the window."""

EXCHANGED: Final = ("moving", "issued", "exposed")
"""Of a part: moved by the thread beside; from ready to exchanged; what the worker waited for it."""

CLASSES: Final = (*COSTS, *BESIDES)

Floats: TypeAlias = npt.NDArray[np.float64]


class Figures(NamedTuple):
    """Single figures of a worker; seconds are means of a step."""

    regions_key: float
    """Equal for workers with equal regions."""
    first_step: float
    union_seconds: float
    """In which an exchange of this worker goes on."""
    hidden_seconds: float
    """Of these, while it computes as well."""
    marks: float
    """In a step."""
    mark_seconds: float
    """What one costs."""
    dropped: float
    flops_per_second: float
    """Of a matrix product by its threads, while all other workers do the same."""
    bytes_per_second: float
    """Of a copy, likewise."""
    threads: float


class WorkerMeasure(NamedTuple):
    """What one worker measured in a window of S steps with R regions."""

    figures: Figures
    class_seconds: Floats
    """Of CLASSES in a step, the mean."""
    step_seconds: Floats
    """(S,)."""
    useful_seconds: Floats
    """(S,): batch, gradient and update."""
    calls: Floats
    """(R,): in a step, the mean."""
    region_seconds: Floats
    """(5, R): STATISTICS of the regions."""
    exchange_seconds: Floats
    """(3, E): of parts of the gradient that are exchanged by themselves, means of EXCHANGED."""


def statistics_of(seconds: npt.ArrayLike) -> Floats:
    """STATISTICS over the first axis: (S, R) gives (5, R), and (S,) gives (5,)."""
    values = np.asarray(seconds, np.float64)
    low, median, high = np.percentile(values, (5, 50, 95), axis=0)
    return np.array([values.mean(axis=0), median, low, high, values.max(axis=0)])


def gathered(team: Team, own: WorkerMeasure) -> list[WorkerMeasure]:
    """The measures of all workers by rank (collective).

    All have windows of equal length. Where the number of regions differs, as with unequal backends,
    the missing ones are NaN.
    """
    regions = int(of_all_workers(team, [own.calls.size]).max())
    missing = regions - own.calls.size
    padded = own._replace(
        calls=np.pad(own.calls, (0, missing), constant_values=np.nan),
        region_seconds=np.pad(own.region_seconds, ((0, 0), (0, missing)), constant_values=np.nan),
    )
    found = of_all_workers(team, np.concatenate([np.ravel(each) for each in padded]).tolist())
    return [_parted(row, padded) for row in found]


def _parted(row: Floats, like: WorkerMeasure) -> WorkerMeasure:
    figures, *arrays = (np.asarray(each, np.float64) for each in like)
    ends = np.cumsum([figures.size, *(each.size for each in arrays)])
    first, *rest = np.split(row, ends[:-1])
    found = (part.reshape(each.shape) for part, each in zip(rest, arrays, strict=True))
    return WorkerMeasure(Figures(*first.tolist()), *found)
