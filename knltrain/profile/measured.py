"""What each worker measured of its steps, and how rank 0 comes to know it."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from knltrain.clocks import BESIDES, COSTS
from knltrain.exchange.transports.team import Team, of_all_workers
from knltrain.profile.bounds import Ceilings

STATISTICS: Final = ("mean", "median", "p05", "p95", "max")
"""Of the seconds in a step, over the steps of the window."""

EXCHANGED: Final = ("moving", "issued", "exposed")
"""Of a part: moved by the thread beside; from ready to exchanged; what the worker waited for it.

Of all parameters at once: moved by any thread; in which an exchange goes on; what of it is exposed.
"""

CLASSES: Final = (*COSTS, *BESIDES)

MOST_RANKS: Final = 64
"""With more workers rank 0 does not learn each one's regions: all sums are of few values."""

_COMPARED_STEPS: Final = 100
"""Of so many steps it is compared which worker was the last."""

Floats: TypeAlias = npt.NDArray[np.float64]


class Figures(NamedTuple):
    """Single figures of a worker; seconds are means of a step."""

    steps: float
    first_step: float
    regions_key: float
    """Equal for workers with equal regions and as many images."""
    training_seconds: float
    """By the clocks of the run, without what the profile itself takes."""
    useful_seconds: float
    """Gradient and update, without what an exchange takes in between."""
    useful_deviation: float
    late_steps: float
    """Whose useful time was over the median by five median deviations."""
    union_seconds: float
    """In which an exchange of this worker goes on."""
    hidden_seconds: float
    """Of these, while it computes as well."""
    exchanges: float
    """Steps in which exchanges of parts were timed; 0 of a worker without images."""
    waits_apart: float
    """Whether its class `waiting` is for late workers alone, within a node."""
    marks: float
    """In a step, of all threads."""
    mark_seconds: float
    """What one costs."""
    watches: float
    """Of clocks, in a step."""
    watch_seconds: float
    """What one costs."""
    fold_seconds: float
    """What it takes to sum them up after a step."""
    dropped: float
    flops_per_second: float
    product_flops_per_second: float
    bytes_per_second: float
    link_bytes_per_second: float
    """These four are the `Ceilings` of its threads, and of its node."""
    threads: float

    @property
    def ceilings(self) -> Ceilings:
        """What its machine does at best."""
        return Ceilings(
            self.flops_per_second,
            self.product_flops_per_second,
            self.bytes_per_second,
            self.link_bytes_per_second,
        )


class WorkerMeasure(NamedTuple):
    """What one worker measured in a window of S steps with R regions."""

    figures: Figures
    class_seconds: Floats
    """Of CLASSES in a step, the mean."""
    step_seconds: Floats
    """(S,), by a clock of its own."""
    useful: Floats
    """(S,): the useful seconds of each step."""
    calls: Floats
    """(R,): in a step, the mean."""
    region_seconds: Floats
    """(5, R): STATISTICS of the regions."""
    exchange_seconds: Floats
    """(3, E): of parts that are exchanged by themselves, or of all parameters, means of EXCHANGED
    in a step."""
    visits: Floats
    """(8,): of the parts of visits to the center (`clocks.VISIT`) their number in a step, and their
    seconds."""


class WorkersMeasured(NamedTuple):
    """What all workers measured."""

    own: WorkerMeasure
    """Of the worker itself."""
    figures: list[Figures]
    class_seconds: list[Floats]
    step_seconds: list[Floats]
    thirds: list[Floats]
    """(3,) of each rank: `thirds_of` its window."""
    like_own: list[int]
    """Ranks with equal regions and as many images, itself included."""
    regions: Floats
    """(5, R): means over those."""
    exchanges: Floats | None
    """(3, E): means over the workers with exchanges; None if there are none."""
    by_rank: list[Floats] | None
    """(R,) means of each rank like this one, None elsewhere; or None with many workers."""
    visits: list[Floats]
    """(8,) of each rank."""
    last_shares: list[float] | None
    """Of the compared steps, those in which a rank was the last."""


def statistics_of(seconds: npt.ArrayLike) -> Floats:
    """STATISTICS over the first axis: (S, R) gives (5, R), and (S,) gives (5,)."""
    values = np.asarray(seconds, np.float64)
    low, median, high = np.percentile(values, (5, 50, 95), axis=0)
    return np.array([values.mean(axis=0), median, low, high, values.max(axis=0)])


def thirds_of(seconds: Floats) -> Floats:
    """The means of a window's thirds, which are in order; 0 for one without steps."""
    return np.array([part.mean() if part.size else 0.0 for part in np.array_split(seconds, 3)])


def lacking(team: Team, steps: int) -> list[int]:
    """The ranks whose window has no step (collective)."""
    return [rank for rank, (own,) in enumerate(of_all_workers(team, [steps])) if not own]


def gathered(team: Team, own: WorkerMeasure, *, in_step: bool) -> WorkersMeasured:
    """What all workers measured (collective); the windows of all have a step at least.

    Where workers are `in_step`, it is compared who was the last. With more than MOST_RANKS only
    sums and a few values of each are exchanged.
    """
    steps, thirds = statistics_of(own.step_seconds), thirds_of(own.step_seconds)
    few = [np.array(own.figures), own.class_seconds, steps, thirds, own.visits]
    rows = of_all_workers(team, np.concatenate(few).tolist())
    ends = np.cumsum([len(each) for each in few[:-1]])
    parted = [np.split(row, ends) for row in rows]
    figures = [Figures(*each.tolist()) for each, *_ in parted]
    like_own = [
        rank for rank, each in enumerate(figures) if each.regions_key == own.figures.regions_key
    ]
    # All take part in all sums; of those with other regions than rank 0's there are zeros.
    key, size, parts = of_all_workers(
        team, [own.figures.regions_key, own.calls.size, own.exchange_seconds.shape[1]]
    )[0]
    is_like = own.figures.regions_key == key
    mine = own.region_seconds if is_like else np.zeros((len(STATISTICS), int(size)))
    regions, by_rank = own.region_seconds, None
    if size:
        summed = team.all_sum(mine.ravel()).reshape(mine.shape)
        regions = summed / len(like_own) if is_like else regions
    if team.workers <= MOST_RANKS:
        by_rank = [*of_all_workers(team, mine[0].tolist())] if size else [mine[0]] * team.workers
    exchanges, timed = own.exchange_seconds, sum(each.exchanges > 0 for each in figures)
    if parts:  # zeros of those that have timed none
        exchanges = team.all_sum(exchanges.ravel()).reshape(exchanges.shape) / max(timed, 1)
    return WorkersMeasured(
        own,
        figures,
        [classes for _, classes, *_ in parted],
        [steps for _, _, steps, *_ in parted],
        [thirds for *_, thirds, _ in parted],
        like_own,
        regions,
        exchanges if timed else None,
        by_rank,
        [visits for *_, visits in parted],
        _last_shares(team, own.useful) if in_step else None,
    )


def _last_shares(team: Team, useful: Floats) -> list[float] | None:
    if not 1 < team.workers <= MOST_RANKS:
        return None
    compared = np.zeros(_COMPARED_STEPS)
    count = min(len(useful), _COMPARED_STEPS)
    compared[:count] = useful[:count]
    found = of_all_workers(team, compared.tolist())[:, :count]
    last = found.argmax(axis=0)
    return [float((last == rank).mean()) for rank in range(team.workers)]
