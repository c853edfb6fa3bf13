"""Implementations of a network's loss and gradient."""
