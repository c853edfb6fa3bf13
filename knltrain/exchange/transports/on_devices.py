"""The transport between workers of one node whose vectors stay on their devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

import numpy as np
import numpy.typing as npt

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.transports.transport import WHOLE, CollectiveTransport
from knltrain.vectors import FloatArray, VectorSpace, aligned_zeros


class DeviceSums(Protocol):
    """Sums over all workers on their devices."""

    def all_reduce(self, vector: FloatArray, check: Callable[[], None]) -> None:
        """Replace a vector's copy (n,) on the device by the sum over all workers (collective).

        What ``check`` raises while others are awaited comes through.
        """

    def close(self) -> None:
        """Leave the others."""


@final
class OnDevices(CollectiveTransport):
    """Exchanges that no host takes part in; each device has a replica of the center.

    All replicas absorb the same sum, so they stay equal to the last bit. By elastic averaging this
    is Sync EASGD2 of You, Buluc, Demmel, SC17, whose center lies on a GPU, with a center on each.

    Starting, meeting and ending are left to ``host``, whose vectors these are: `space` keeps their
    copies.
    """

    on_host = False

    def __init__(self, host: CollectiveTransport, space: VectorSpace, sums: DeviceSums) -> None:
        assert space.arithmetic is not None
        self._host, self._space, self._sums = host, space, sums
        self._arithmetic = space.arithmetic
        self.rank, self.workers, self.clocks = host.rank, host.workers, host.clocks
        self.local, self.center = host.local, host.center
        self.spare, self.kept = host.spare, host.kept
        self._contribution = aligned_zeros(host.local.size)
        space.follow(self.local, self.center, self._contribution)

    def exchange(self, rule: SynchronousRule, part: slice = WHOLE) -> None:
        """Apply ``rule`` once to all locals and the center, whole (collective)."""
        assert part == WHOLE
        rule.compute_on(self._arithmetic)
        contribution = self._contribution
        rule.contribute(self.local, self.center, contribution)
        with self.clocks.waiting:
            self._sums.all_reduce(contribution, self.check)
        rule.absorb(self.center, self.kept, contribution)
        rule.follow(self.local, self.center, contribution)

    def exchange_beside(
        self,
        rule: SynchronousRule,  # noqa: ARG002
        part: slice = WHOLE,  # noqa: ARG002
        *,
        of_locals: bool = True,  # noqa: ARG002
    ) -> None:
        """Raise ConfigError, as `swap` and `exchange_at_master`."""
        raise _refusal()

    def swap(self) -> None:
        """Raise ConfigError."""
        raise _refusal()

    def exchange_at_master(self, rule: SynchronousRule) -> None:  # noqa: ARG002
        """Raise ConfigError."""
        raise _refusal()

    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and every local to the values of rank 0, on host and device."""
        self._host.start_from(values)
        self._space.changed(self.local, self.center)

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers (collective)."""
        return self._host.all_sum(values)

    def link_rate(self, size: int) -> float | None:
        """Bytes per second at which this node sends about ``size`` bytes, see `Team.link_rate`."""
        return self._host.link_rate(size)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective)."""
        self._host.barrier(timeout_seconds)

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all, (P,) int64."""
        return self._host.progress(steps)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self._host.check()

    def close(self) -> None:
        """Leave the others, and release the memory that the workers share."""
        self.local = self.spare = self.center = self._contribution = np.zeros(0, np.float32)
        self.kept = np.zeros((0, 0), np.float32)
        self._sums.close()
        self._host.close()


def _refusal() -> ConfigError:
    return ConfigError(
        "exchange.within_nodes = 'device' is for methods whose workers average all at once"
    )
