"""Compilation, cache and autotuning of kernels."""
