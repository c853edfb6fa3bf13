"""The step of a run whose workers have done different numbers of steps, and its end.

Workers that visit the center alone differ in speed. Without aligned termination (`each`) all do as
many steps, and the fast ones wait for the slow ones at the end. With it (ShmCaffe: Ahn, Kim, Kang,
Lim, ICDCS 2018) they share their progress and end together. Either way a run has one number of
steps, the *run's step*: it determines the end, evaluations, and the names of checkpoints.

A meeting (evaluation, checkpoint, the end) is due at the run's step b. After each of its steps
every worker reads the run's step. When it finds b or more, it waits for the others. This neither
deadlocks nor lets workers disagree:

- The first worker comes. While no worker waits, all step, so rank 0's count, the largest count and
  the mean grow. (With `each` all come to their own step b.)
- All others follow. Counts never fall, so what one worker has read another reads after its current
  step. No step needs a worker that waits: locks of the center are held during a visit only.
  Schedules where a step does (`synchronous`, `round_robin`) are for `each` alone.
- All decide alike. Once all are there, counts do not change, and each reads them anew. That reading
  decides what the meeting is for, and whether the run has ended.
- The run ends at exactly its number of steps. After the first count by which the run is at b, each
  other worker adds at most its current step. So the largest count stays b, since whoever has b
  reads it, and the mean stays below b + 1.
- A group is one worker. Its workers take all steps together, and after each one all use what its
  root has read. So they go on, meet and end together.
- Where a meeting is requested (`requests`), workers that visit the center at any time come from
  their current step, even one that already waits at b. With `each` the run is then at the step of
  the slowest. What was due at b is not due yet, and the worker that waited for it waits on.
- All take a step after a meeting before they read again. So between two checkpoints each worker has
  judged the first one by the loss of a step.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.exchange.strategies.strategy import Strategy
from knltrain.exchange.transports.team import Team, of_all_workers

Termination: TypeAlias = Literal["each", "master", "fastest", "average"]
"""What ends a run: every worker has done all steps, rank 0 has, the first one has, or their mean
has come to that number."""


def step_of_run(rule: Termination, steps_done: npt.NDArray[np.int64], rank: int) -> int:
    """The run's step as seen by `rank`, where the workers have done `steps_done`, (P,) int64.

    Never falls while counts rise. With "each" it is the step of `rank` itself, with "average" the
    mean rounded down.
    """
    if rule == "each":
        return int(steps_done[rank])
    if rule == "master":
        return int(steps_done[0])
    if rule == "fastest":
        return int(steps_done.max())
    return int(steps_done.sum()) // len(steps_done)


def gathered(team: Team, number: int) -> tuple[int, ...]:
    """The number of every worker, by rank; each below 2^53 (collective)."""
    return tuple(int(each) for each in of_all_workers(team, [number])[:, 0])


@final
class RunProgress:
    """The progress of a run, as far as this worker knows.

    `step` is the run's step, `worker_steps` are the steps of all workers by rank. With "each" a
    worker does not read the others' counts: it takes them to be its own, which is true at meetings
    after a step. If requests (`requests`) call for meetings at which workers `may_be_apart`, it
    reads the counts there. `counted_steps` are those that rates are made of: with "each" they are
    its own at meetings, too, since numbers of images that are not counted alike have no difference.
    """

    def __init__(
        self, rule: Termination, total_steps: int, team: Team, *, may_be_apart: bool = False
    ) -> None:
        self.step = 0
        self.worker_steps: tuple[int, ...] = (0,) * team.workers
        self.counted_steps = self.worker_steps
        self.total_steps = total_steps
        self._rule: Termination = rule
        self._team = team
        self._may_be_apart = may_be_apart

    def meet(self, own_steps: int) -> None:
        """Read the run's step at a meeting of all workers (collective).

        With "each", workers that may meet at different steps take that of the slowest.
        """
        if self._rule != "each" or not self._may_be_apart:
            self.look(own_steps)
            return
        found = gathered(self._team, own_steps)
        self.step, self.worker_steps = min(found), found

    def go_on(self, own_steps: int) -> None:
        """Leave a meeting: with "each" a worker's own steps count again."""
        if self._rule == "each":
            self.look(own_steps)

    def look(self, own_steps: int) -> None:
        """Publish that this worker has done `own_steps` steps, and read the run's step."""
        if self._rule == "each":
            self.step, self.worker_steps = own_steps, (own_steps,) * self._team.workers
        else:
            found = self._team.progress(own_steps)
            self.step = step_of_run(self._rule, found, self._team.rank)
            self.worker_steps = tuple(found.tolist())
        self.counted_steps = self.worker_steps

    @property
    def ended(self) -> bool:
        """Whether the run is at its last step."""
        return self.step >= self.total_steps


MEETING_SECONDS = 1800.0
"""Timeout of workers that wait for each other outside exchanges: before the first step one may
compile kernels, and workers that exchange alone, or seldom, may be many steps apart."""


@final
class Synchronisation:
    """One worker's part in the meetings of its run; each reads `progress` anew.

    `step` is the run's step at the last meeting.
    """

    def __init__(self, strategy: Strategy, progress: RunProgress) -> None:
        self.step = self._own_step = 0
        self._strategy = strategy
        self._team = strategy.team
        self._progress = progress

    def wait(self) -> None:
        """Wait until all workers of the run are here: a barrier (collective)."""
        self._strategy.settle()
        method = self._strategy.method
        apart = method.comes_alone or method.period != 1
        self._team.barrier(MEETING_SECONDS if apart else None)

    def agree(self, own_step: int) -> int:
        """Wait until all workers are here, and read the run's step while none of them steps.

        This worker is at `own_step`. Returns the run's step at the meeting before.
        """
        self._progress.look(own_step)
        self.wait()
        self._progress.meet(own_step)
        self._team.barrier()
        since, self.step, self._own_step = self.step, self._progress.step, own_step
        return since

    def unmoved_since(self, own_step: int) -> int | None:
        """The run's step at the last meeting, if this worker has done no step since; else None."""
        return self.step if own_step == self._own_step else None
