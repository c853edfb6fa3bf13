"""The peak rates of a rank, for the roofline bounds of its layers."""

from __future__ import annotations

from dataclasses import dataclass

from knltrain.errors import ConfigError


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
        """Measure PyTorch's matrix product and copy, in as many threads as PyTorch takes.

        Give the figures yourself if the layers compute with another number of threads.
        """
        from vectorized_ops.machine_bounds import MachineBounds

        return cls(*MachineBounds().measure())
