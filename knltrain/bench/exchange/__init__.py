"""Benchmark of exchanges among the workers of a node: knltrain's own, and libraries."""
