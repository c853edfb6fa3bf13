"""A method: a rule, a strategy, their schedule and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypedDict

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import ExchangeRule, Moment, SynchronousRule
from knltrain.exchange.transports.transport import WHOLE, Order

if TYPE_CHECKING:
    from knltrain.config import RunConfig
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.exchange.strategies.stream import Stream
    from knltrain.exchange.transports.team import Team, TeamFactory
    from knltrain.network.layer_slices import PackedLayers

Schedule: TypeAlias = Literal["synchronous"] | Order
"""All workers at once, or each worker alone in one of the orders of `VisitedCenter.visit`."""

SYNCHRONOUS: tuple[Schedule, ...] = ("synchronous",)


class OwnSettings(TypedDict, total=False):
    """Fields of a `Method` that some strategies fill in."""

    parts: tuple[slice, ...]
    layers: tuple[tuple[str, int], ...]
    branches: tuple[int | None, int | None]
    stream: Stream


@dataclass(frozen=True, slots=True)
class SegmentNeed:
    """What a node's segment must have room for: workers and vectors."""

    workers: int
    center_vectors: int
    spares: bool


class StrategyTraits:
    """The traits of a strategy class that are known before a worker exists."""

    schedules: ClassVar[tuple[Schedule, ...]] = SYNCHRONOUS
    """The schedules that it supports."""

    after: ClassVar[Moment | None] = None
    """The moment of a step when it exchanges; None for that of the rule."""

    takes_parts: ClassVar[bool] = False
    """Whether the vectors can be exchanged in parts, one after another."""

    hears_of_parts: ClassVar[bool] = False
    """Whether it exchanges parts of a gradient while others are computed."""

    marks_visits: ClassVar[bool] = False
    """Whether its marks, if it has any, are the parts of visits to the center
    (`knltrain.clocks.VISIT`)."""

    marks_arrivals: ClassVar[bool] = False
    """Whether a thread beside marks when a part of a gradient has come back as weights."""

    waits_while_moving: ClassVar[bool] = False
    """Whether its clock `waiting` runs while vectors are sent, too."""

    exchanges_on_devices: ClassVar[bool] = False
    """Whether exchanges of a node's workers can leave vectors on devices."""

    needs_spares: ClassVar[bool] = False
    """Whether the transport's workers need a spare vector each."""

    emulates_links: ClassVar[bool] = True
    """Whether its exchanges can use an emulated link."""

    visits_center: ClassVar[bool] = False
    """Whether workers visit a center though they step together."""

    steps_at_master: ClassVar[bool] = False
    """Whether rank 0 takes the step for all, layer by layer, within exchanges."""

    is_one_mpi_job: ClassVar[bool] = False
    """Whether all workers are ranks of one MPI job, which allocates their vectors."""

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: PackedLayers) -> OwnSettings:
        """Return the fields of a method that this strategy derives from the configuration."""
        if chosen.packing == "packed":
            return {}
        from knltrain.network.layer_slices import layer_parts

        return {"parts": layer_parts(network)}

    @classmethod
    def check(cls, method: Method) -> None:
        """Raise ConfigError if parts of a method do not fit each other."""

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Raise ConfigError if it does not support an option of a run."""

    @classmethod
    def overlaps(cls, method: Method) -> bool:
        """Tell whether a part of an exchange overlaps with computing."""
        return cls.overlapped_share(method) > 0

    @classmethod
    def overlapped_share(cls, method: Method) -> float:  # noqa: ARG003
        """Return the share of an exchange's time on a link that may overlap with computing."""
        return 0.0

    @classmethod
    def vectors(cls, method: Method) -> int:
        """Return how many packed vectors a worker holds besides local, gradient and center.

        A spare, and at most the vectors that the rule keeps beside the center.
        """
        return cls.needs_spares + method.rule.center_vectors - 1

    @classmethod
    def segments(cls, method: Method, workers: int, nodes: int) -> tuple[SegmentNeed, ...]:
        """Return the segments of a node with ``workers``; the last one has the method's center.

        With several ``nodes`` each has a replica of the center, and one more vector for the
        contributions of its workers.
        """
        return (SegmentNeed(workers, method.rule.center_vectors + (nodes > 1), cls.needs_spares),)

    @classmethod
    def sent_bytes(
        cls,
        method: Method,  # noqa: ARG003
        exchanged: int,
        read: int | None = None,  # noqa: ARG003
    ) -> int | None:
        """Return the bytes that a node sends in an exchange; a plain one sends ``exchanged``.

        Of these, a visit to a center in a wire format reads so many; None in float32.
        None if the number differs between nodes.
        """
        return exchanged

    @classmethod
    def segment_bytes(cls, method: Method, vector: int, workers: int) -> float:  # noqa: ARG003
        """Return the bytes that a worker of one node takes from others and gives them in a period.

        The mean over ``workers``, of vectors of so many bytes; its own local is not counted. Where
        all share the work, a P-th of all others' locals is read and written; a master, and a tree,
        move as much.
        """
        return 2 * (workers - 1) * vector / workers

    @classmethod
    def join(cls, teams: TeamFactory, *, comes_alone: bool) -> Team:
        """Make the team of a worker."""
        return teams.visiting() if comes_alone else teams.meeting_all()


@dataclass(frozen=True, slots=True)
class Levels:
    """Groups of ``group_size`` workers: a method inside each group, and one between the roots."""

    group_size: int
    inside: Method
    outside: Method


@dataclass(frozen=True, slots=True)
class Method:
    """A method of distributed training, composed of independent parts.

    - ``period``: the communication period τ in steps; None means never. Gradients are exchanged in
      every step, or the replicas would drift apart. Before step ``every_step_until`` the period is
      1 (post-local SGD).
    - ``after``: the moment of a step when the exchange happens. At "gradient" the gradient is ready
      and the local has not moved yet, so gradient and pull are both taken at W_t (EASGD). At "step"
      the local has moved; needed by workers that push their progress (SEASGD).
    - ``parts``: exchanged one after another: the whole vector, or the parameters of each layer.
    - ``stream``, ``layers``, ``branches``, ``levels``: settings of some strategies: fragments;
      (name, parameters) of each layer in the order of the forward pass; children of a worker in the
      tree of gradients and in that of weights; the methods of two levels, where the outer one sets
      the period.

    Raises ConfigError for parts that do not fit each other.
    """

    name: str
    rule: ExchangeRule
    strategy: type[StrategyTraits]
    period: int | None = 1
    schedule: Schedule = "synchronous"
    after: Moment = "gradient"
    every_step_until: int = 0
    parts: tuple[slice, ...] = (WHOLE,)
    layers: tuple[tuple[str, int], ...] = ()
    branches: tuple[int | None, int | None] = (None, None)
    stream: Stream | None = None
    levels: Levels | None = None

    def __post_init__(self) -> None:
        if not self.visits_center and not isinstance(self.rule, SynchronousRule):
            raise ConfigError(
                f"{self.name}: {type(self.rule).__name__} is for workers that visit the center; "
                "expected the schedule 'first_come', 'round_robin' or 'lock_free', got "
                "'synchronous'"
            )
        if self.schedule not in self.strategy.schedules:
            raise ConfigError(
                f"{self.name}: {self.strategy.__name__} is for the schedules "
                f"{', '.join(map(repr, self.strategy.schedules))}, got '{self.schedule}'"
            )
        if self.parts != (WHOLE,) and not self.strategy.takes_parts:
            raise ConfigError(
                f"{self.name}: expected exchange.packing = 'packed'; only plain exchanges of all "
                "workers at once can go layer by layer"
            )
        self._check_period()
        self.strategy.check(self)

    @property
    def moves(self) -> Literal["parameters", "gradient"]:
        """What a transport's local is: the worker's parameters, or its gradient."""
        return self.rule.moves

    @property
    def moved_in_groups(self) -> Literal["parameters", "gradient"]:
        """What the workers of a group exchange, or all workers where there are no groups."""
        return self.moves if self.levels is None else self.levels.inside.moves

    @property
    def may_idle(self) -> bool:
        """Whether a worker may have no images, as only gradients of all are exchanged."""
        return self.moves == "gradient" and self.period is not None and self.levels is None

    def weight_of(self, rank: int, shares: Sequence[int]) -> float:
        """The factor of a worker's gradient, with a batch shared out so.

        With it the mean of all gradients is that of the whole batch. 1 where parameters are
        exchanged: each worker then steps by the mean of its own images.
        """
        moved = self if self.levels is None else self.levels.inside
        if self.moved_in_groups != "gradient" or moved.period is None:
            return 1.0
        size = self.group_size or len(shares)
        first = rank // size * size
        among = shares[first : first + size]
        return size * shares[rank] / sum(among) if sum(among) else 1.0

    @property
    def comes_alone(self) -> bool:
        """Whether each worker, or the root of its group, visits the center (asynchronous)."""
        return self.schedule != "synchronous"

    @property
    def visits_center(self) -> bool:
        """Whether each worker, or the root of its group, goes to one center by itself."""
        return self.comes_alone or self.strategy.visits_center

    @property
    def comes_at_any_time(self) -> bool:
        """Whether no worker (or group) has to wait for another one's next step."""
        return self.period is None or self.schedule in ("first_come", "lock_free")

    @property
    def meets_seldom(self) -> bool:
        """Whether all workers take steps between exchanges that the model does not contain."""
        together = not self.comes_alone and self.after == "step"
        return together and self.period is not None and self.period > 1

    @property
    def group_size(self) -> int:
        """Workers of a group, or 0 if there are no groups."""
        return 0 if self.levels is None else self.levels.group_size

    @property
    def layer_parts(self) -> list[slice]:
        """Where each of the ``layers`` lies in a vector."""
        bounds = accumulate((size for _, size in self.layers), initial=0)
        return [slice(*ends) for ends in pairwise(bounds)]

    def due(self, step: int) -> bool:
        """Tell whether ``step``, from 0, has an exchange.

        After the gradient: if t mod τ = 0, Zhang's Algorithm 1. After the step: if t + 1, the
        number of steps since the start, is a multiple of τ.
        """
        period = self.period_at(step)
        return period is not None and (step + (self.after == "step")) % period == 0

    def period_at(self, step: int) -> int | None:
        """The communication period at a step."""
        return 1 if self.period and step < self.every_step_until else self.period

    def segment_bytes(self, vector: int, workers: int, step: int) -> float:
        """What each of ``workers`` of a node moves over its segment in a step, for such vectors.

        The mean over the period at that step, of vectors of so many bytes.
        """
        period = self.period_at(step)
        return self.strategy.segment_bytes(self, vector, workers) / period if period else 0.0

    def _check_period(self) -> None:
        if self.period is None:
            return
        if self.period < 1:
            raise ConfigError(
                f"exchange.communication_period = {self.period}: expected at least 1 step"
            )
        if self.moves == "gradient" and self.period != 1:
            raise ConfigError(
                f"exchange.communication_period = {self.period}: {self.name} exchanges gradients, "
                "which only works in every step; use 1, or a method that moves parameters"
            )
