"""The peak rates of a rank, for the roofline bounds of its layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knltrain.errors import ConfigError
from vectorized_ops.timing import mean_seconds

_SIDE, _COPIED_FLOATS = 1024, 1 << 24
_ENOUGH_SECONDS, _TIMES = 0.02, 4


@dataclass(frozen=True, slots=True)
class Machine:
    """Peak operations (matrix product), memory bandwidth (copy, read and written), and network.

    Without `network_bytes_per_second` there are no bounds of the network. Raises ConfigError for
    figures of zero or less.
    """

    flops_per_second: float
    memory_bytes_per_second: float
    network_bytes_per_second: float | None = None
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        network = self.network_bytes_per_second
        figures = [self.flops_per_second, self.memory_bytes_per_second]
        figures += [] if network is None else [network]
        if min(figures) <= 0 or self.latency_seconds < 0:
            raise ConfigError(f"{self}: expected figures above zero; measure them on this machine")

    @classmethod
    def measured(cls) -> Machine:
        """Measure NumPy's matrix product and copy, in its own threads: the best of a few runs.

        Give the figures yourself if the layers compute with another number of threads.
        """
        left, source = np.ones((_SIDE, _SIDE), np.float32), np.ones(_COPIED_FLOATS, np.float32)
        out, target = np.empty_like(left), np.empty_like(source)
        product = _least(lambda: np.matmul(left, left, out=out))
        copy = _least(lambda: np.copyto(target, source))
        return cls(2 * _SIDE**3 / product, 2 * source.nbytes / copy)


def _least(run: Callable[[], object]) -> float:
    """Return the least time of several runs in seconds; the first may be cold."""
    return min(mean_seconds(run, _ENOUGH_SECONDS) for _ in range(_TIMES))
