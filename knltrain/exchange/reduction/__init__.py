"""Sums over all processes that go on while the caller computes: the seam, alone, and on a node."""

from knltrain.exchange.reduction.alone import Alone
from knltrain.exchange.reduction.on_node import NodeReducer
from knltrain.exchange.reduction.reducer import FloatArray, Reducer, Reduction

__all__ = ["Alone", "FloatArray", "NodeReducer", "Reducer", "Reduction"]
