"""Asynchronous sums over all processes: the interface, for one process, and for a node."""

from knltrain.communication.reduction.on_node import NodeReducer
from knltrain.communication.reduction.reducer import Reducer, Reduction
from knltrain.communication.reduction.single_process import SingleProcessReducer
from knltrain.vectors import FloatArray

__all__ = ["FloatArray", "NodeReducer", "Reducer", "Reduction", "SingleProcessReducer"]
