"""What is exchanged by which rule, and in which steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from knltrain.errors import ConfigError
from knltrain.exchange.rule import ExchangeRule


@dataclass(frozen=True, slots=True)
class Method:
    """One way of training together: a rule, the vector that it moves, and how often.

    ``moves`` says what a transport's local is: the worker's parameters (elastic averaging, local
    averaging) or its gradient (synchronous SGD). ``period`` is the communication period τ in steps;
    None means never. A gradient is exchanged in every step, or the replicas would drift apart.

    Raises ConfigError if the period is below 1, or if a gradient has a period other than 1.
    """

    name: str
    rule: ExchangeRule
    moves: Literal["parameters", "gradient"]
    period: int | None = 1

    def __post_init__(self) -> None:
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

    def due(self, step: int) -> bool:
        """Tell whether ``step``, from 0, has an exchange: t mod τ = 0, Zhang's Algorithm 1."""
        return self.period is not None and step % self.period == 0
