"""The base of trainings in the comparison: where each runs, and its results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knltrain.bench.nodes.hosts import Hosts

LONGEST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Ground:
    """Where all of them train: `groups` are the cpus of each worker, a worker for each host.

    `network` takes `batch` images per worker and step, `steps` of which are timed; `job` is a
    folder that `knltrain.bench.step.job` has written. Of the first `trace_steps` steps a training
    of knltrain's own keeps traces.
    """

    hosts: Hosts
    groups: Sequence[Sequence[int]]
    network: str
    job: Path
    batch: int
    steps: int
    trace_steps: int = 0

    @property
    def workers(self) -> int:
        """How many there are in all."""
        return len(self.groups)

    @property
    def cpus(self) -> list[int]:
        """Those of all workers."""
        return sorted({cpu for group in self.groups for cpu in group})

    @property
    def cores_are_shared(self) -> bool:
        """Whether a core has several workers."""
        return sum(len(group) for group in self.groups) > len(self.cpus)


@dataclass(frozen=True, slots=True)
class Found:
    """Of all workers, `images_per_second`; of communication, the share `hidden` behind computing.

    That is 1 - e / b, where exchanges took a thread beside the computing ones b seconds, and the
    worker waited for them, or exchanged otherwise, for e seconds. None where there is no thread,
    or where not all of an exchange is done by it.

    The next three are seconds of a step, means over the workers, or None where nobody measures
    them: what a worker spends in `communication_seconds`, waiting for others included, and in
    `computing_seconds`, of the whole of its `step_seconds`.

    `traces` are kept by rank, as far as they were asked for, and `hidden_in_trace` is what
    `knltrain.bench.nodes.overlap` makes of them, a mean over the workers.
    """

    images_per_second: float
    hidden: float | None = None
    communication_seconds: float | None = None
    computing_seconds: float | None = None
    step_seconds: float | None = None
    traces: Sequence[str] = field(default=(), repr=False)
    hidden_in_trace: float | None = None

    @property
    def communication_share(self) -> float | None:
        """Of a step, the part that communication takes."""
        if self.communication_seconds is None or not self.step_seconds:
            return None
        return self.communication_seconds / self.step_seconds


class Training(ABC):
    """A way to train, with a `name` and what it is; `of_one_host` is the one to compare it with.

    It goes `by` "ccl", "gloo" or "mpi", or needs none of them.
    """

    name: str
    what: str
    by: str | None
    of_one_host: str | None

    @abstractmethod
    def train(self, ground: Ground, folder: Path) -> Found:
        """Train from the beginning, in an empty folder.

        Raises PeerError where it cannot.
        """
