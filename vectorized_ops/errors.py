"""Errors of the operations."""

from __future__ import annotations


class OperationError(Exception):
    """A shape, a memory order or an option that an implementation does not support."""
