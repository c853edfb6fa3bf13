"""Epilogues as operations of their own, defined."""

from __future__ import annotations

from vectorized_ops.epilogue import RECTIFIER, Epilogue
from vectorized_ops.reference.activation import Activation
from vectorized_ops.reference.rectifier import Rectifier


def activation(epilogue: Epilogue) -> Rectifier | Activation:
    """Return the operation that an epilogue does."""
    if epilogue.function == RECTIFIER:
        return Rectifier(epilogue.slope, epilogue.ceiling)
    return Activation(epilogue.function)
