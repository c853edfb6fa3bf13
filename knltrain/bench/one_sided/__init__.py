"""Benchmark of one-sided access to the memory of another process that computes meanwhile."""
