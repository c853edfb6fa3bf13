"""What is exchanged by which rule, when, and by which strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypedDict

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import ExchangeRule, Moment, SynchronousRule
from knltrain.exchange.strategies.stream import Stream
from knltrain.exchange.transports.collective_transport import WHOLE
from knltrain.exchange.transports.visited_center import Order

if TYPE_CHECKING:
    from knltrain.config import RunConfig
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.exchange.transports.team import Team
    from knltrain.exchange.transports.team_factory import TeamFactory
    from knltrain.network.network import Network

Schedule: TypeAlias = Literal["synchronous"] | Order
"""All workers at once, or each when it comes, in one of the orders of `VisitedCenter.visit`."""

SYNCHRONOUS: tuple[Schedule, ...] = ("synchronous",)


class OwnSettings(TypedDict, total=False):
    """Fields of a `Method` that some strategies fill in."""

    parts: tuple[slice, ...]
    layers: tuple[tuple[str, int], ...]
    stream: Stream


@dataclass(frozen=True, slots=True)
class SegmentNeed:
    """A segment of a node's memory: of how many workers, with which vectors."""

    workers: int
    center_vectors: int
    spares: bool


class StrategyTraits:
    """What a class of strategies says of the methods that name it, before a worker is there."""

    schedules: ClassVar[tuple[Schedule, ...]] = SYNCHRONOUS
    """When its workers may come."""

    after: ClassVar[Moment | None] = None
    """The moment of a step at which its exchanges happen; None where the rule says it."""

    takes_parts: ClassVar[bool] = False
    """Whether the vectors can be exchanged in parts, one after another."""

    needs_spares: ClassVar[bool] = False
    """Whether the transport's workers need a spare vector each."""

    emulates_links: ClassVar[bool] = True
    """Whether its exchanges can go by an emulated link."""

    steps_by_layer: ClassVar[bool] = False
    """Whether rank 0 takes the step of one layer after another, while exchanges go on."""

    is_one_mpi_job: ClassVar[bool] = False
    """Whether all workers of a run are ranks of one MPI job, whose memory has their vectors."""

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: Network) -> OwnSettings:
        """What a method by this strategy takes from its configuration and network."""
        from knltrain.network.layer_slices import layer_parts

        return {} if chosen.packing == "packed" else {"parts": layer_parts(network)}

    @classmethod
    def check(cls, method: Method) -> None:
        """Raise ConfigError for parts of a method that do not fit each other."""

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Raise ConfigError for what a run asks of it that it cannot do."""

    @classmethod
    def overlaps(cls, method: Method) -> bool:  # noqa: ARG003
        """Whether something of an exchange goes on while the worker computes."""
        return False

    @classmethod
    def vectors(cls, method: Method) -> int:
        """Packed vectors that a worker holds for exchanges besides local, gradient and center.

        A spare, and at most what the rule keeps beside the center.
        """
        return cls.needs_spares + method.rule.center_vectors - 1

    @classmethod
    def segments(cls, method: Method, workers: int, nodes: int) -> tuple[SegmentNeed, ...]:
        """The segments of a node with so many workers; the last one has the method's center.

        On each of several ``nodes`` there is a replica of the center, with a vector more for what
        the node's workers contribute.
        """
        return (SegmentNeed(workers, method.rule.center_vectors + (nodes > 1), cls.needs_spares),)

    @classmethod
    def sent_bytes(cls, method: Method, exchanged: int) -> int | None:  # noqa: ARG003
        """Bytes that a node sends in an exchange, of which all vectors at once take ``exchanged``.

        None where each node sends another number of them.
        """
        return exchanged

    @classmethod
    def join(cls, teams: TeamFactory, *, comes_alone: bool) -> Team:
        """How a worker becomes one of the others."""
        return teams.visiting() if comes_alone else teams.meeting_all()


@dataclass(frozen=True, slots=True)
class Levels:
    """Workers in groups of ``group_size``: one method inside each, one for their roots."""

    group_size: int
    inside: Method
    outside: Method


@dataclass(frozen=True, slots=True)
class Method:
    """One way of training together: a composition of parts that know nothing of each other.

    ``period`` is the communication period τ in steps; None means never. A gradient is exchanged in
    every step, or the replicas would drift apart. Before step ``every_step_until`` the period is 1
    (post-local SGD).

    ``after`` is the moment of a step at which the exchange happens: when its gradient is ready and
    the local has not moved by it yet, so that gradient and pull are both taken at W_t (EASGD), or
    when the local has moved (those who push what it has moved by, SEASGD).

    ``parts`` are exchanged one after another: the whole, or the parameters of each layer. Some
    strategies have settings of their own: a ``stream`` of fragments; ``layers``, (name, parameters)
    of each in the order of the forward pass; the methods of two ``levels``, where that of the outer
    one says when.

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
    stream: Stream | None = None
    levels: Levels | None = None

    def __post_init__(self) -> None:
        if not self.comes_alone and not isinstance(self.rule, SynchronousRule):
            raise ConfigError(
                f"{self.name}: {type(self.rule).__name__} is for workers that come to the center "
                "alone; expected the schedule 'first_come', 'round_robin' or 'lock_free', got "
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
    def comes_alone(self) -> bool:
        """Whether each worker, or the root of its group, comes to the center alone."""
        return self.schedule != "synchronous"

    @property
    def comes_at_any_time(self) -> bool:
        """Whether no worker, or no group of them, needs another one's next step for its own."""
        return self.period is None or self.schedule in ("first_come", "lock_free")

    @property
    def meets_seldom(self) -> bool:
        """Whether all workers take steps between exchanges, which the model does not have."""
        together = not self.comes_alone and self.after == "step"
        return together and self.period is not None and self.period > 1

    @property
    def group_size(self) -> int:
        """Workers of a group, or 0 where there are none."""
        return 0 if self.levels is None else self.levels.group_size

    def due(self, step: int) -> bool:
        """Tell whether ``step``, from 0, has an exchange.

        One after the gradient is due if t mod τ = 0, Zhang's Algorithm 1; one after the step if
        t + 1 steps since the start are a multiple of τ.
        """
        if self.period is None:
            return False
        return step < self.every_step_until or (step + (self.after == "step")) % self.period == 0

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
