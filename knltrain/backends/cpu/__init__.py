"""The network as a static plan over `vectorized_ops`: knltrain's own engine for CPUs."""

from knltrain.backends.cpu.backend import CpuBackend

__all__ = ["CpuBackend"]
