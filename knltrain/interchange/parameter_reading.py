"""Which tensor of a module is which parameter of a network."""

from __future__ import annotations

import math
from collections.abc import KeysView
from typing import final

from torch import fx

from knltrain.errors import NetworkError
from knltrain.interchange.exported_graph import ExportedGraph, Operation, is_tensor
from knltrain.interchange.reshaping import RESHAPING, WITHOUT_EFFECT


@final
class ParameterReading:
    """The tensors of a graph, and `keys`: a parameter's name -> its name in the module's state."""

    def __init__(self, graph: ExportedGraph) -> None:
        self.keys: dict[str, str] = {}
        self._graph = graph
        self._tensors = dict(graph.tensors)
        self._owners: dict[int, str] = {}

    @property
    def nodes(self) -> KeysView[fx.Node]:
        """The values of the graph that are tensors of the module, or views of whole ones."""
        return self._tensors.keys()

    def take_view(self, operation: Operation) -> bool:
        """Note views of parameters that have all their values, such as `gamma[:, None, None]`."""
        source = next(iter(operation.arguments.values()), None)
        shape = operation.node.meta["val"].shape if is_tensor(operation.node) else ()
        if not isinstance(source, fx.Node) or source not in self._tensors:
            return False
        kind, key = operation.operator, self._tensors[source]
        is_whole = math.prod(shape) == self._graph.values[key].numel()
        if not is_whole or kind not in (*RESHAPING, *WITHOUT_EFFECT, "slice"):
            return False
        self._tensors[operation.node] = key
        return True

    def take(self, name: str, node: fx.Node, operation: Operation) -> None:
        """Note whose parameter a tensor is; NetworkError if it is another layer's already."""
        key = self._tensors.get(node)
        if key is None:
            raise NetworkError(
                f"{operation.where}: {operation.operator} with computed parameters: expected "
                "parameters of the module"
            )
        is_statistic = name.rpartition(".")[2].startswith("running_")
        if is_statistic == (key in self._graph.trained):
            kind = "a buffer" if is_statistic else "a parameter, a network trains all"
            raise NetworkError(f"{operation.where}: '{key}' is none: expected {kind}")
        owner = self._owners.setdefault(self._graph.values[key].data_ptr(), name)
        if owner != name:
            raise NetworkError(
                f"{operation.where}: '{key}' is a parameter of '{owner.rpartition('.')[0]}', too: "
                "expected parameters of its own, a network does not share them"
            )
        self.keys[name] = key
