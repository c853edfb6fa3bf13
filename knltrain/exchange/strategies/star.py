"""A star: one worker gathers all gradients, takes the step, and sends the weights to all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, final

import numpy as np

from knltrain.errors import ExchangeTimeout
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.strategies.method import Method, OwnSettings
from knltrain.exchange.strategies.one_job import OneJobStrategy
from knltrain.exchange.strategies.strategy import MasterStep, Moment, Touched
from knltrain.vectors import FloatArray, aligned_zeros

if TYPE_CHECKING:
    from knltrain.config.exchange_table import ExchangeConfig
    from knltrain.exchange.transports.job_team import JobTeam
    from knltrain.network.layer_slices import PackedLayers


@final
class StarStrategy(OneJobStrategy):
    """Synchronous SGD of Inspur's Caffe-MPI, as Ahn et al. describe it (ICDCS 2018).

    Every worker sends its gradient to rank 0, which computes one, too. That adds them up in rank
    order, moves its weights by their mean, and sends them to one worker after another. Nothing
    overlaps.
    """

    waits_while_moving = True

    def __init__(self, method: Method, team: JobTeam, step: MasterStep) -> None:
        super().__init__(method, team, step)
        ((_, size),) = method.layers
        self._weights, self._gradient = aligned_zeros(size), aligned_zeros(size)
        others = team.workers - 1 if team.rank == 0 else 0
        self._received = [aligned_zeros(size) for _ in range(others)]

    @classmethod
    def own_settings(cls, chosen: ExchangeConfig, network: PackedLayers) -> OwnSettings:
        """Return all parameters as one layer."""
        return {**super().own_settings(chosen, network), "layers": (("all", network.packed_size),)}

    @classmethod
    def vectors(cls, method: Method) -> int:
        """Return how many gradients rank 0 receives."""
        assert isinstance(method.rule, GradientMean)
        return super().vectors(method) + method.rule.workers - 1

    def start_from(self, values: FloatArray) -> None:
        """Set all weights to those of rank 0 (collective)."""
        self._weights[:] = values
        self._send_weights(nullcontext())  # before the first step no clock runs

    def touched(self, moment: Moment, step: int) -> Touched:  # noqa: ARG002
        """Return the gradient, and the weights that take its place, where all exchange."""
        if moment != "gradient":
            return Touched()
        return Touched((self._gradient,), (self._weights,))

    def gradient_ready(self, step: int) -> None:
        """Exchange."""
        self.exchange(step)

    def exchange(self, step: int) -> None:
        """Send the gradient and receive the weights, or do so for all others (collective)."""
        team, space = self._team, self._team.space
        team.at_peace = False
        if team.rank:
            with team.clocks.waiting, _named("worker 0, the master"):
                space.passive_send(self._gradient, 0, team.timeout_seconds, team.check)
        else:
            self._gather()
            with team.clocks.center:
                for each in self._received:
                    np.add(self._gradient, each, out=self._gradient)
                np.divide(self._gradient, np.float32(team.workers), out=self._gradient)
                self._take.take_all(step, self._weights, self._gradient)
        self._send_weights(team.clocks.waiting)

    def _gather(self) -> None:
        """Receive the gradients of all others, which come in any order."""
        ranks, waiting = {0: self._gradient}, list(self._received)
        with self._team.clocks.waiting:
            while waiting:
                values, missing = waiting.pop(), set(range(self._team.workers)) - ranks.keys()
                with _named(f"worker {', '.join(map(str, sorted(missing)))}"):
                    ranks[self._receive(values)] = values
        self._received = [ranks[rank] for rank in range(1, self._team.workers)]

    def _send_weights(self, waiting: AbstractContextManager[object]) -> None:
        team = self._team
        with waiting:
            if team.rank:
                with _named("worker 0, the master"):
                    self._receive(self._weights)
                return
            for rank in range(1, team.workers):
                with _named(f"worker {rank}"):
                    team.space.passive_send(self._weights, rank, team.timeout_seconds, team.check)

    def _receive(self, out: FloatArray) -> int:
        team = self._team
        return team.space.passive_receive(out, team.timeout_seconds, team.check)

    def close(self) -> None:
        """Release all vectors; collective if nothing is under way."""
        self._weights = self._gradient = np.zeros(0, np.float32)
        self._received = []
        self._team.close()


@contextmanager
def _named(who: str) -> Iterator[None]:
    """Say for whom a message was waited for in vain."""
    try:
        yield
    except ExchangeTimeout as error:
        raise ExchangeTimeout(
            f"{error}: expected {who}; if a worker can be so late, raise exchange.timeout_seconds"
        ) from error
