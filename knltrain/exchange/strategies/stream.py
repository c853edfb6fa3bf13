"""Exchanges by fragments, one after another."""

from __future__ import annotations

from dataclasses import dataclass

from knltrain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Stream:
    """Exchanges by F fragments of the vectors in turn, each once in a period τ.

    Each fragment has a slot of τ / F steps. Its exchange begins ``delay`` steps before the end of
    the slot. At the end, the local becomes mixing · local + (1 − mixing) · center. Douillard et
    al., "Streaming DiLoCo with overlapping communication", arXiv 2501.18512.
    """

    fragments: tuple[slice, ...]
    delay: int = 0
    mixing: float = 0.0

    def fragment_after(self, steps: int, period: int) -> slice | None:
        """Return the fragment whose slot ends after ``steps`` steps; None if none does."""
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
