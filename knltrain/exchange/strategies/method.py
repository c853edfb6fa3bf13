"""What is exchanged by which rule, when, and how the workers meet for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import ExchangeRule, SynchronousRule
from knltrain.exchange.transports.collective_transport import WHOLE
from knltrain.exchange.transports.visited_center import Order

Schedule: TypeAlias = Literal["synchronous"] | Order
"""All workers at once, or each when it comes, in one of the orders of `VisitedCenter.visit`."""

Moment: TypeAlias = Literal["gradient", "step"]

Overlap: TypeAlias = Literal["nothing", "writes", "gradient", "backward"]
"""What of an exchange goes on while the worker computes: nothing; its writes to the center; all of
it, while the gradient is computed; that of a layer's gradient, while layers before are computed."""


@dataclass(frozen=True, slots=True)
class Stream:
    """How exchanges go by fragments of the vectors, F in turn, each once in every period τ.

    A fragment's exchange begins ``delay`` steps before the end of its slot of τ / F steps. At the
    end, the local becomes mixing · local + (1 − mixing) · center. Douillard et al., "Streaming
    DiLoCo with overlapping communication", arXiv 2501.18512.
    """

    fragments: tuple[slice, ...]
    delay: int = 0
    mixing: float = 0.0

    def fragment_after(self, steps: int, period: int) -> slice | None:
        """The fragment whose slot ends when ``steps`` steps are done, if one does."""
        slot = period // len(self.fragments)
        number, rest = divmod(steps, slot)
        return self.fragments[(number - 1) % len(self.fragments)] if number and not rest else None

    def check(self, period: int) -> None:
        """Raise ConfigError unless slots are whole steps, and longer than the delay."""
        count = len(self.fragments)
        if period % count:
            raise ConfigError(
                f"exchange.communication_period = {period}: expected a multiple of "
                f"exchange.fragments = {count}, so that each fragment has a slot of whole steps"
            )
        if not 0 <= self.delay < period // count:
            raise ConfigError(
                f"exchange.delay_steps = {self.delay}: expected at least 0 and less than a "
                f"fragment's slot of {period // count} steps (communication_period / fragments)"
            )
        if not 0 <= self.mixing < 1:
            raise ConfigError(f"exchange.mixing = {self.mixing}: expected at least 0 and below 1")


@dataclass(frozen=True, slots=True)
class Method:
    """One way of training together: a composition of parts that know nothing of each other.

    ``moves`` says what a transport's local is: the worker's parameters (elastic averaging, local
    averaging) or its gradient (synchronous SGD). ``period`` is the communication period τ in steps;
    None means never. A gradient is exchanged in every step, or the replicas would drift apart.
    Before step ``every_step_until`` the period is 1 (post-local SGD).

    ``after`` is the moment of a step at which the exchange happens: when its gradient is ready and
    the local has not moved by it yet, so that gradient and pull are both taken at W_t (EASGD), or
    when the local has moved (those who push what it has moved by, SEASGD).

    ``overlap`` says what goes on while the worker computes. With ``at_master`` rank 0 alone moves
    the center; else all share that work. ``parts`` are exchanged one after another: the whole, or
    the parameters of each layer. With a ``stream`` exchanges go by fragments. A worker that
    ``computes_in_turn`` waits for its turn before it computes the gradient of a step. Where workers
    go in groups of ``group_size``, ``inside`` is how those of a group come together, and this how
    the groups do: by the locals of their roots, or ``through_centers`` of theirs.

    With ``trees``, (name, parameters) of each layer in the order of the forward pass, gradients go
    up a tree layer by layer, rank 0 alone takes the step, and weights go down another: no center is
    shared, and the rule only says by which mean.

    Raises ConfigError for parts that do not fit each other.
    """

    name: str
    rule: ExchangeRule
    moves: Literal["parameters", "gradient"]
    period: int | None = 1
    schedule: Schedule = "synchronous"
    after: Moment = "gradient"
    overlap: Overlap = "nothing"
    at_master: bool = False
    every_step_until: int = 0
    parts: tuple[slice, ...] = (WHOLE,)
    stream: Stream | None = None
    computes_in_turn: bool = False
    inside: Method | None = None
    group_size: int = 0
    through_centers: bool = False
    trees: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.schedule == "synchronous" and not isinstance(self.rule, SynchronousRule):
            raise ConfigError(
                f"{self.name}: {type(self.rule).__name__} is for workers that come to the center "
                "alone; expected the schedule 'first_come', 'round_robin' or 'lock_free', got "
                "'synchronous'"
            )
        if self.moves == "gradient" and self.schedule != "synchronous":
            raise ConfigError(
                f"{self.name}: gradients are exchanged by all workers at once; expected the "
                f"schedule 'synchronous', got '{self.schedule}'"
            )
        self._check_overlap()
        self._check_period()

    @property
    def spares(self) -> bool:
        """Whether the transport's workers need a spare each."""
        elsewhere = self.through_centers or bool(self.trees)
        beside = self.overlap in ("gradient", "backward") and not elsewhere
        return self.at_master or beside or self.stream is not None

    @property
    def vectors(self) -> int:
        """Packed vectors that a worker holds for exchanges besides local, gradient and center.

        A contribution for those that come alone, a spare, at most what the rule keeps beside the
        center, and the vectors of a root.
        """
        found = (self.schedule != "synchronous") + self.spares + self.rule.center_vectors - 1
        return found + (0 if self.inside is None else 2 + self.inside.vectors)

    def due(self, step: int) -> bool:
        """Tell whether ``step``, from 0, has an exchange.

        One after the gradient is due if t mod τ = 0, Zhang's Algorithm 1; one after the step if
        t + 1 steps since the start are a multiple of τ.
        """
        if self.period is None:
            return False
        return step < self.every_step_until or (step + (self.after == "step")) % self.period == 0

    def _check_overlap(self) -> None:
        synchronous = self.schedule == "synchronous"
        if self.overlap == "writes" and (synchronous or self.rule.follows):
            raise ConfigError(
                f"{self.name}: only workers that come to the center alone, by a rule that does not "
                "wait for what it becomes, write behind; expected another schedule than "
                "'synchronous', and EASGD"
            )
        if self.overlap == "gradient" and not (
            synchronous and self.moves == "parameters" and self.after == "gradient"
        ):
            raise ConfigError(
                f"{self.name}: only exchanges of all workers' parameters at once, from before a "
                "step, go on while its gradient is computed"
            )
        if self.overlap == "backward" and not (synchronous and self.moves == "gradient"):
            raise ConfigError(
                f"{self.name}: only gradients that all workers exchange at once can go layer by "
                "layer while they are computed"
            )
        ways = [
            self.at_master,
            self.overlap in ("gradient", "backward"),
            self.stream is not None,
        ]
        if sum(ways) > 1 or (any(ways) and not synchronous):
            raise ConfigError(
                f"{self.name}: all workers at once meet at a master, meanwhile or by fragments; "
                "expected one of these, and the schedule 'synchronous'"
            )
        if self.computes_in_turn and self.schedule != "round_robin":
            raise ConfigError(
                f"{self.name}: workers compute in turn where they come in turn; expected the "
                f"schedule 'round_robin', got '{self.schedule}'"
            )
        if self.trees and not (self.overlap == "backward" and self.parts == (WHOLE,)):
            raise ConfigError(
                f"{self.name}: along trees each layer's gradient goes by itself; expected the "
                "overlap 'backward', and no parts"
            )
        by_layers = self.overlap == "backward" or not (self.overlap != "nothing" or self.spares)
        plain = synchronous and by_layers
        if self.parts != (WHOLE,) and not plain:
            raise ConfigError(
                f"{self.name}: expected exchange.packing = 'packed'; only plain exchanges of all "
                "workers at once can go layer by layer"
            )

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
        if self.stream is not None:
            self.stream.check(self.period)
        inner = None if self.inside is None else self.inside.period
        if inner is not None and self.period % inner:
            raise ConfigError(
                f"exchange.communication_period = {self.period}: expected a multiple of "
                f"exchange.group_period = {inner}, so that groups meet when their workers do"
            )
