"""Optimizers of a worker's own parameters, and their learning rates."""
