"""Loads or compiles ahead of the first step what it needs."""

from vectorized_ops.numba.compiling.recording import prepare

__all__ = ["prepare"]
