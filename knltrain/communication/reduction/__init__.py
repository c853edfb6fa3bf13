"""Sums over all processes that go on while the caller computes: the seam, alone, and on a node."""

from knltrain.communication.reduction.on_node import NodeReducer
from knltrain.communication.reduction.reducer import Reducer, Reduction
from knltrain.communication.reduction.single_process import Alone
from knltrain.vectors import FloatArray

__all__ = ["Alone", "FloatArray", "NodeReducer", "Reducer", "Reduction"]
