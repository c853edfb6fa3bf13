"""Activations in C order, as those of oneDNN."""

from vectorized_ops.onednn.arrays import activations, activations_in, activations_size, use_threads

__all__ = ["activations", "activations_in", "activations_size", "use_threads"]
