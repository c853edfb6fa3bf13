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
    """The setting of all trainings: `groups` are the cpus of each worker, a worker for each host.

    `network` takes `batch` images per worker and step, `steps` of which are timed; `job` is a
    folder that `knltrain.bench.step.job` has written. knltrain's own trainings write traces of the
    first `trace_steps` steps.
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
        """Number of workers."""
        return len(self.groups)

    @property
    def cpus(self) -> list[int]:
        """The cpus of all workers."""
        return sorted({cpu for group in self.groups for cpu in group})

    @property
    def cores_are_shared(self) -> bool:
        """Whether a core has several workers."""
        return sum(len(group) for group in self.groups) > len(self.cpus)


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """The result of a training.

    - `images_per_second` is that of all workers.
    - `communication_seconds` (waiting for others included), `computing_seconds` and `step_seconds`
      are those of a step, means over the workers; None where not measured.
    - `traces` are kept by rank, if requested; `hidden`, the share of exchanges that lies within
      computing, is computed from them by `knltrain.bench.nodes.overlap`, a mean over the workers.
    """

    images_per_second: float
    communication_seconds: float | None = None
    computing_seconds: float | None = None
    step_seconds: float | None = None
    traces: Sequence[str] = field(default=(), repr=False)
    hidden: float | None = None

    @property
    def communication_share(self) -> float | None:
        """The share of a step that communication takes."""
        if self.communication_seconds is None or not self.step_seconds:
            return None
        return self.communication_seconds / self.step_seconds


class Training(ABC):
    """A way to train, with a `name` and a description; it is compared with `of_one_host`.

    It exchanges `by` "ccl", "gloo" or "mpi", or needs none of them.
    """

    name: str
    what: str
    by: str | None
    of_one_host: str | None

    @abstractmethod
    def train(self, ground: Ground, folder: Path) -> TrainingFigures:
        """Train from the beginning, in an empty folder.

        Raises PeerError on failure.
        """
