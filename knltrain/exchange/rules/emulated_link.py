"""An emulated link: exchanges that take at least as long as they would over a slower one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.vectors import FloatArray

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Link:
    """What one worker is connected by, in each direction at the same time."""

    bytes_per_second: float
    latency_seconds: float
    """Of a message."""

    def seconds(self, floats: float) -> float:
        """Time that so many float32 values take, without the latency."""
        return floats * _FLOAT_BYTES / self.bytes_per_second


@final
class SlowLink(SynchronousRule):
    """A rule whose values pass a link between each worker and the others; emulated by sleeping.

    Nothing is sent: what is faster waits until the link's time is over. With P workers and n values

    - a worker that comes alone takes the center and then gives its contribution, 2 n values in 2
      messages. In turn, as by "round_robin", that is the time of a master with one link; otherwise
      each has a link of its own to its piece of the center;
    - workers that share an exchange scatter their parts of the sum and gather the results, 2 n
      (P − 1) / P values by each link, and the latency of 2 messages;
    - at a master, center and sum go along a tree, 2 n values and 2 messages on each of its
      ceil(log2 P) levels. All of them count before the master's update.

    It costs a worker no work, as a network card would not. All else is that of ``rule``.
    """

    def __init__(self, rule: SynchronousRule, link: Link, workers: int) -> None:
        self.moves, self.after = rule.moves, rule.after
        self.center_vectors = rule.center_vectors
        self.follows = rule.follows
        self.takes_back = rule.takes_back
        self.remembers = rule.remembers
        self._rule = rule
        self._link = link
        self._workers = workers
        self._latency = self._overslept = 0.0

    def found(self, center: FloatArray, kept: FloatArray) -> None:
        """Set up what the rule keeps."""
        self._rule.found(center, kept)

    def model(self, center: FloatArray, kept: FloatArray) -> FloatArray:
        """Return the rule's model."""
        return self._rule.model(center, kept)

    def prepare(self, step: int) -> None:
        """Let the next values pass with the latency of their messages."""
        self._latency = 2 * self._link.latency_seconds
        self._overslept = 0.0
        self._rule.prepare(step)

    def begin(self, center: FloatArray, contribution: FloatArray) -> None:
        """Let the rule set up what it remembers."""
        self._rule.begin(center, contribution)

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Contribute by the rule, in the time of the tree."""
        with self._passing(2 * local.size, levels=(self._workers - 1).bit_length()):
            self._rule.contribute(local, center, contribution)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Absorb by the rule."""
        self._rule.absorb(center, kept, contribution)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Follow by the rule."""
        self._rule.follow(local, center, contribution)

    def visit(
        self, local: FloatArray, center: FloatArray, kept: FloatArray, contribution: FloatArray
    ) -> None:
        """Visit by the rule, in the time of both ways."""
        with self._passing(2 * local.size):
            self._rule.visit(local, center, kept, contribution)

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do the rule's exchange of a stripe, in the time that each link needs for it."""
        with self._passing(2 * (self._workers - 1) * center.size):
            self._rule.synchronise(locals_, center, kept)

    @contextmanager
    def _passing(self, floats: int, levels: int = 1) -> Iterator[None]:
        """Let the block take as long; what one oversleeps, the next of an exchange makes up for."""
        begin = time.perf_counter() - self._overslept
        due = begin + levels * (self._latency + self._link.seconds(floats))
        self._latency = 0.0
        yield
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
            self._overslept = time.perf_counter() - due
        else:
            self._overslept = 0.0
