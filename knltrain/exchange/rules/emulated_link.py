"""An emulated link: exchanges take at least as long as they would over a slower link."""

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
    """The link of one worker: full duplex, with bandwidth and latency in each direction."""

    bytes_per_second: float
    latency_seconds: float
    """The latency of a message."""

    def seconds(self, floats: float) -> float:
        """Return the transfer time of so many float32 values, without the latency."""
        return floats * _FLOAT_BYTES / self.bytes_per_second


@final
class SlowLink(SynchronousRule):
    """A rule whose exchanges take the time of a link between each worker and the others.

    Nothing is sent: an exchange that is faster sleeps until the link's time is over. With P workers
    and n values it takes the time of

    - 2 n values and 2 messages for a visit: the worker reads the center, then sends its
      contribution. With "round_robin" this is a master with one link; otherwise each worker has a
      link of its own to the center;
    - 2 n (P − 1) / P values and 2 messages on each link for an exchange of all workers: a
      reduce-scatter and an all-gather;
    - 2 n values and 2 messages on each of the ceil(log2 P) levels of a tree for an exchange at a
      master. All levels count before the master's update.

    As with a network card, a transfer takes no core. All else is that of ``rule``.
    """

    def __init__(self, rule: SynchronousRule, link: Link, workers: int) -> None:
        self.moves, self.after = rule.moves, rule.after
        self.center_vectors = rule.center_vectors
        self.follows = rule.follows
        self.takes_back = rule.takes_back
        self.remembers = rule.remembers
        self.of_statistics, self.statistics = rule.of_statistics, rule.statistics
        self._rule = rule
        self._link = link
        self._workers = workers
        self._latency = self._overslept = 0.0

    def found(self, center: FloatArray, kept: FloatArray) -> None:
        """Set up the vectors that the rule keeps."""
        self._rule.found(center, kept)

    def model(self, center: FloatArray, kept: FloatArray) -> FloatArray:
        """Return the rule's model."""
        return self._rule.model(center, kept)

    def prepare(self, step: int) -> None:
        """Prepare the rule, and count the latency of messages for the next transfer."""
        self._latency = 2 * self._link.latency_seconds
        self._overslept = 0.0
        self._rule.prepare(step)

    def begin(self, center: FloatArray, contribution: FloatArray) -> None:
        """Begin by the rule."""
        self._rule.begin(center, contribution)

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Contribute by the rule; takes the time of the tree."""
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
        """Visit by the rule; takes the time of both directions."""
        with self._passing(2 * local.size):
            self._rule.visit(local, center, kept, contribution)

    def synchronise(self, locals_: FloatArray, center: FloatArray, kept: FloatArray) -> None:
        """Do the rule's exchange of a stripe; takes the time of each link for it."""
        with self._passing(2 * (self._workers - 1) * center.size):
            self._rule.synchronise(locals_, center, kept)

    @contextmanager
    def _passing(self, floats: int, levels: int = 1) -> Iterator[None]:
        """Make the block take the link's time; oversleeping is subtracted from the next block."""
        begin = time.perf_counter() - self._overslept
        due = begin + levels * (self._latency + self._link.seconds(floats))
        self._latency = 0.0
        yield
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
            self._overslept = time.perf_counter() - due
        else:
            self._overslept = 0.0
