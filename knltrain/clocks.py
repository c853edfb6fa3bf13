"""Where the time of one worker goes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import final

COSTS = (
    "reading",
    "set_up",
    "batch",
    "gradient",
    "update",
    "waiting",
    "moving",
    "center_update",
)
"""The eight classes of cost of You, Buluç, Demmel, SC17 (Table 3, Fig. 11), on one node.

reading: theirs is data I/O; here, reading and normalising the data set. set_up: initialisation;
from the making of a worker to its first step, less reading; its process has started before.
batch: data to the device; here, until a step has its batch: the worker fills it, or waits for the
data pool. gradient: forward and backward. update: the optimizer's
step at the worker. waiting: part of their communication; for others at a barrier, a lock of the
center or a turn, and for the rest of an exchange that a thread does meanwhile. moving:
communication of parameters; what else an exchange takes. Kernels do it in one pass over shared
memory with the arithmetic of the exchange, so that the center's update is in it as well.
center_update: where a master moves the center alone (sync_easgd1), or takes the step for all within
an exchange (caffe_mpi, parameter_server), which only the master spends.
"""

BESIDES = ("rest", "meeting", "evaluation", "checkpoint")
"""What their classes leave out. rest: between and around the parts of a step. meeting: until all
are there for an evaluation or a checkpoint."""

COMMUNICATION = ("waiting", "moving")

_WALL, _PROCESSOR = "wall", "processor"
_APART = ("reading", "set_up", "training", "meeting", "evaluation", "checkpoint")
"""The clocks that exclude each other."""

SHOWN_DATA_SHARE = 0.05
"""The share of time without a batch from which on a user is told of it."""


class Marks(ABC):
    """Is told where a thread is, between the parts of its work."""

    @abstractmethod
    def mark(self, number: int) -> None:
        """Since the mark before, part `number` has gone on; below 0, nothing that counts has."""


@final
class Unobserved(Marks):
    """Nobody listens."""

    def mark(self, number: int) -> None:
        """Do nothing."""


UNOBSERVED = Unobserved()


VISIT = ("trgw", "tulw", "twwi", "tugw")
"""The parts of a visit to the center, as ShmCaffe names them (Ahn, Kim, Kang, Lim, ICDCS 2018).

By their numbers in marks: read the center, pull the local, write the increment, accumulate it.
"""

READ_CENTER, PULL_LOCAL, WRITE_INCREMENT, ACCUMULATE = range(len(VISIT))


@final
class Clock:
    """Sums the seconds spent inside its `with` blocks, which must not nest.

    `watch` is told the begin and the end of each, as `time.perf_counter` has them.
    """

    __slots__ = ("_entered", "seconds", "watch")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.watch: Callable[[float, float], None] | None = None
        self._entered = 0.0

    def __enter__(self) -> None:
        self._entered = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        now = time.perf_counter()
        self.seconds += now - self._entered
        watch = self.watch  # which another thread may take away
        if watch is not None:
            watch(self._entered, now)


@final
@dataclass(slots=True)
class ExchangeClocks:
    """Parts of a worker's exchanges, of the time that the worker itself spends in them.

    What a thread does while the worker computes is not in them, but in `beside`. `center` is what a
    master takes to move the center alone.
    """

    waiting: Clock = field(default_factory=Clock)
    center: Clock = field(default_factory=Clock)
    beside: Clock = field(default_factory=Clock)

    def clear(self) -> None:
        """Forget all."""
        self.waiting.seconds = self.center.seconds = self.beside.seconds = 0.0


@final
@dataclass(slots=True)
class Clocks:
    """Where the time of one worker goes; `exchange` includes `waiting` and `center`, not `beside`.

    `training` covers everything from the first step's begin to the last one's end but evaluations,
    checkpoints, and the meetings of all workers before these: batch, gradient, update, exchange,
    and all that happens between two steps.
    """

    reading: Clock = field(default_factory=Clock)
    set_up: Clock = field(default_factory=Clock)
    training: Clock = field(default_factory=Clock)
    batch: Clock = field(default_factory=Clock)
    gradient: Clock = field(default_factory=Clock)
    update: Clock = field(default_factory=Clock)
    exchange: Clock = field(default_factory=Clock)
    waiting: Clock = field(default_factory=Clock)
    center: Clock = field(default_factory=Clock)
    beside: Clock = field(default_factory=Clock)
    meeting: Clock = field(default_factory=Clock)
    evaluation: Clock = field(default_factory=Clock)
    checkpoint: Clock = field(default_factory=Clock)
    _made: float = field(default_factory=lambda: time.perf_counter(), init=False)
    _read_before: float = field(default=0.0, init=False)
    _counted_until: float = field(default=0.0, init=False)
    _wall_before: float = field(default=0.0, init=False)
    _processor_begun: float = field(default=0.0, init=False)
    processor_seconds: float = field(default=0.0, init=False)
    """Of all threads of the process, from the first step's begin to the last one's end."""

    @classmethod
    def over(cls, exchanges: ExchangeClocks) -> Clocks:
        """Clocks that contain those of a team."""
        return cls(waiting=exchanges.waiting, center=exchanges.center, beside=exchanges.beside)

    def set_out(self) -> None:
        """Let the training time run from here; what has passed since these were made is set-up."""
        now = time.perf_counter()
        self.set_up.seconds += now - self._made - (self.reading.seconds - self._read_before)
        self._counted_until = now - self._besides_training
        self._processor_begun = time.process_time() - self.processor_seconds

    def step_done(self) -> None:
        """Count the time since the last step's end, or since `set_out`, as training."""
        now = time.perf_counter() - self._besides_training
        self.training.seconds += now - self._counted_until
        self._counted_until = now
        self.processor_seconds = time.process_time() - self._processor_begun

    @property
    def _besides_training(self) -> float:
        return self.meeting.seconds + self.evaluation.seconds + self.checkpoint.seconds

    @property
    def train_seconds(self) -> float:
        """Time spent on training until the end of the last step."""
        return self.training.seconds

    @property
    def exchange_share(self) -> float:
        """Share of the training time spent in exchanges, 0 to 1."""
        return self.exchange.seconds / self.train_seconds if self.train_seconds else 0.0

    @property
    def data_share(self) -> float:
        """Share of the training time in which the worker had no batch yet, 0 to 1."""
        return self.batch.seconds / self.train_seconds if self.train_seconds else 0.0

    def costs(self) -> dict[str, float]:
        """Seconds of each of COSTS and BESIDES; batch to rest add up to the training time."""
        computing = {name: getattr(self, name).seconds for name in ("batch", "gradient", "update")}
        waiting, center = self.waiting.seconds, self.center.seconds
        return {
            "reading": self.reading.seconds,
            "set_up": self.set_up.seconds,
            **computing,
            "waiting": waiting,
            "moving": self.exchange.seconds - waiting - center,
            "center_update": center,
            "rest": self.train_seconds - self.exchange.seconds - sum(computing.values()),
            "meeting": self.meeting.seconds,
            "evaluation": self.evaluation.seconds,
            "checkpoint": self.checkpoint.seconds,
        }

    @property
    def wall_seconds(self) -> float:
        """By a reading of its own: since these were made, and in the runs that they go on from."""
        return time.perf_counter() - self._made + self._wall_before

    @property
    def measured_seconds(self) -> float:
        """The sum of all classes but the rest, which is what the others leave.

        A class that is counted twice brings it nearer to `wall_seconds`, or beyond; one that is not
        counted takes it away from there.
        """
        costs = self.costs()
        return sum(costs.values()) - costs["rest"]

    def seconds(self) -> dict[str, float]:
        """Seconds of every clock by its name, as a checkpoint keeps them, of wall and processor."""
        clocks = {each.name: getattr(self, each.name).seconds for each in fields(self) if each.init}
        return {**clocks, _WALL: self.wall_seconds, _PROCESSOR: self.processor_seconds}

    def go_on_from(self, seconds: Mapping[str, float]) -> None:
        """Let the clocks continue where those of a stopped run stood; unknown ones are left out."""
        self._read_before = seconds.get("reading", 0.0)
        self.processor_seconds += seconds.get(_PROCESSOR, 0.0)
        for name in self.seconds().keys() & seconds.keys() - {_WALL, _PROCESSOR}:
            getattr(self, name).seconds += seconds[name]
        by_classes = sum(seconds.get(name, 0.0) for name in _APART)
        self._wall_before += seconds.get(_WALL, by_classes)
