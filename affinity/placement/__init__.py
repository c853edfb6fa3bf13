"""Gives cores and memory to workers: pure functions of a machine and a request."""
