"""What the operations say when they are asked for something they cannot do."""

from __future__ import annotations


class OperationError(Exception):
    """A shape, a memory order or an option that an implementation does not take."""
