"""Sums and copies over one process of each node."""
