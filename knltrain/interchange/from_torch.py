"""Converts PyTorch modules to networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from knltrain.errors import NetworkError, unknown_name
from knltrain.interchange.checked_module import checked_module, unwrapped
from knltrain.interchange.exported_graph import ExportedGraph, Operation, is_tensor, shape_of
from knltrain.interchange.reshaping import (
    RESHAPING,
    WITHOUT_EFFECT,
    form_behind,
    form_reshaped,
)
from knltrain.interchange.to_torch import to_torch
from knltrain.interchange.torch_terms import READERS, WHOLE_MODULES, Call, Reader
from knltrain.network.graph import Output
from knltrain.network.layers import IMAGES, Layer
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

TOLERANCE = 1e-4
"""Of the largest output: how much an imported network's outputs may differ from its module's."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class ImportedNetwork:
    """A network made of a PyTorch module, with a copy of the module's parameters."""

    network: Network
    parameters: ParameterVector
    module: nn.Module
    """The module as it was given, but for wrappers."""
    keys: dict[str, str]
    """Name of each parameter in the network -> its name in the module's state."""

    def to_torch(self) -> nn.Module:
        """The module itself, with the values that `parameters` have now."""
        state = self.module.state_dict()
        with torch.no_grad():
            for name, key in self.keys.items():
                state[key].copy_(torch.from_numpy(self.parameters.views[name]))
        return self.module


def from_torch(
    module: nn.Module,
    example: torch.Tensor,
    auxiliary_weights: Sequence[float] = (),
    name: str | None = None,
) -> ImportedNetwork:
    """A network that computes what a module does, and a copy of its parameters.

    `example` holds one or more images (N,C,H,W) float32. The forward pass is read by
    `torch.export`, in training mode. The first output are the logits, and each further one needs
    the weight of its loss in `auxiliary_weights`. Layers have the names of the submodules. By
    default the network has the name of the module's class.

    Raises NetworkError, which names the submodule, the line of its `forward` and what would do
    instead, for anything that a network cannot express; and if the network's outputs for `example`
    in evaluation differ from the module's by more than 1e-4 of the largest.
    """
    own = checked_module(module, example)
    graph = ExportedGraph(own, example)
    reading = _Reading(graph, own)
    outputs = reading.outputs(auxiliary_weights)
    channels, height, width = example.shape[1:]
    network = Network(
        name or type(own).__name__, (height, width, channels), tuple(reading.layers), outputs
    )
    parameters = ParameterVector(network)
    for spec in network.parameters:
        values = graph.values[reading.keys[spec.name]].detach().numpy()
        parameters.views[spec.name][...] = values.reshape(spec.shape)
    _check_outputs(own, network, parameters, example)
    return ImportedNetwork(network, parameters, unwrapped(module), reading.keys)


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the module's graph: the layer whose output it is, and its form in PyTorch."""

    layer: str
    form: str


class _Reading:
    """Walks through a graph and makes layers of its operations."""

    def __init__(self, graph: ExportedGraph, module: nn.Module) -> None:
        self.layers: list[Layer] = []
        self.keys: dict[str, str] = {}
        self._graph, self._module = graph, module
        self._values = {graph.images: _Value(IMAGES, "map")}
        self._names = {IMAGES}
        self._owners: dict[int, str] = {}
        for operations in _by_layer(graph):
            if len(operations) > 1 or operations[0].module_class in WHOLE_MODULES:
                self._read_whole(operations)
            else:
                self._read(operations[0])

    def outputs(self, auxiliary_weights: Sequence[float]) -> tuple[Output, ...]:
        """The network's outputs."""
        nodes, weights = self._graph.outputs, (1.0, *auxiliary_weights)
        if len(nodes) != len(weights):
            raise NetworkError(
                f"{type(self._module).__name__} has {len(nodes)} outputs in training, and "
                f"auxiliary_weights = {tuple(auxiliary_weights)}: expected a weight for each "
                "output but the first, such as 0.3"
            )
        values = [self._values.get(node) for node in nodes]
        for node, value in zip(nodes, values, strict=True):
            if value is None or value.form not in ("map", "vector"):
                raise NetworkError(
                    f"output '{node}' of {type(self._module).__name__} has the shape "
                    f"(N, {', '.join(map(str, shape_of(node) or ()))}): expected logits "
                    "(N, classes) of a dense layer, or a flattened mean of maps"
                )
        return tuple(
            Output(value.layer, weight)
            for value, weight in zip(values, weights, strict=True)
            if value is not None
        )

    def _read(self, operation: Operation) -> None:
        kind = operation.operator.removesuffix("_")
        (node, *others) = self._sources(operation)
        before = self._values[node]
        if kind in WITHOUT_EFFECT:
            self._values[operation.node] = before
            return
        if kind in RESHAPING:
            self._values[operation.node] = self._reshaped(operation, node)
            return
        reader = READERS.get(kind)
        if reader is None:
            raise NetworkError(
                f"{operation.where}: {unknown_name('operation', operation.operator, READERS)}"
            )
        values = [before, *(self._values[other] for other in others)]
        self._check_forms(operation, reader, values)
        layer = reader.layer(self._call(operation, values))
        if layer is None:
            self._values[operation.node] = before
            return
        self._add(layer, operation, before)
        for argument, role in reader.tensors.items():
            tensor = operation.arguments[argument]
            if tensor is not None:
                self._take(f"{layer.name}.{role}", tensor, operation)

    def _read_whole(self, operations: Sequence[Operation]) -> None:
        """Make one layer of all operations of a module."""
        first, last = operations[0], operations[-1]
        inside = {operation.node for operation in operations}
        (source,) = {node for each in operations for node in self._sources(each, inside)}
        before = self._values[source]
        make = WHOLE_MODULES[first.module_class]
        module = self._module.get_submodule(first.module)
        self._add(make(self._named(first), (before.layer,), module), last, before)

    def _sources(self, operation: Operation, inside: Set[fx.Node] = frozenset()) -> list[fx.Node]:
        """The values that an operation takes, but for parameters and those `inside`."""
        found: list[fx.Node] = []
        fx.node.map_arg(operation.arguments, found.append)
        known = self._graph.tensors.keys() | inside
        sources = [node for node in found if is_tensor(node) and node not in known]
        for node in sources:
            if node not in self._values:
                raise NetworkError(
                    f"{operation.where}: {operation.operator} takes '{node}', which is no output "
                    "of a layer: expected layers of images and parameters only"
                )
        if not sources and not inside:
            raise NetworkError(
                f"{operation.where}: {operation.operator} computes from parameters alone: expected "
                "parameters as they are, without normalisation or parametrisation"
            )
        return sources

    def _reshaped(self, operation: Operation, node: fx.Node) -> _Value:
        before, shape, wanted = self._values[node], shape_of(node), shape_of(operation.node)
        form = form_reshaped(before.form, shape, wanted) if shape and wanted else None
        if form is None:
            raise NetworkError(
                f"{operation.where}: {operation.operator} to "
                f"{tuple(operation.node.meta['val'].shape)}, expected a flatten of maps behind the "
                "first axis, before the first dense layer or behind global pooling"
            )
        return _Value(before.layer, form)

    def _check_forms(self, operation: Operation, reader: Reader, values: Sequence[_Value]) -> None:
        forms = {value.form for value in values}
        if len(forms) > 1 or not forms <= set(reader.takes):
            found = " and ".join(_FORMS[form] for form in sorted(forms))
            expected = " or ".join(_FORMS[form] for form in reader.takes)
            raise NetworkError(
                f"{operation.where}: {operation.operator} of {found}, expected {expected}"
            )

    def _call(self, operation: Operation, values: Sequence[_Value]) -> Call:
        shapes = {}
        for key, value in operation.arguments.items():
            if isinstance(value, fx.Node):
                own = tuple(value.meta["val"].shape)
                shapes[key] = own if value in self._graph.tensors else shape_of(value) or ()
        return Call(
            self._named(operation),
            tuple(value.layer for value in values),
            operation.arguments,
            shapes,
            operation.where,
        )

    def _add(self, layer: Layer, operation: Operation, before: _Value) -> None:
        self.layers.append(layer)
        self._names.add(layer.name)
        form = form_behind(layer, before.form, shape_of(operation.node) or ())
        self._values[operation.node] = _Value(layer.name, form)

    def _take(self, name: str, node: fx.Node, operation: Operation) -> None:
        """Note whose parameter a tensor is; NetworkError if it is another layer's already."""
        key = self._graph.tensors.get(node)
        if key is None:
            raise NetworkError(
                f"{operation.where}: {operation.operator} with computed parameters: expected "
                "parameters of the module"
            )
        owner = self._owners.setdefault(self._graph.values[key].data_ptr(), name)
        if owner != name:
            raise NetworkError(
                f"{operation.where}: '{key}' is a parameter of '{owner.rpartition('.')[0]}', too: "
                "expected parameters of its own, a network does not share them"
            )
        self.keys[name] = key

    def _named(self, operation: Operation) -> str:
        """A name for an operation's layer: its module's, or its own within the module's."""
        own = operation.operator.removesuffix("_")
        is_leaf = operation.module_class.startswith("torch.nn.modules.")
        wanted = operation.module if is_leaf else ".".join(filter(None, (operation.module, own)))
        name, count = wanted, 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        return name


_FORMS = {
    "map": "feature maps",
    "mean": "means of maps that are not flattened",
    "flat": "flattened maps",
    "vector": "vectors",
}


def _by_layer(graph: ExportedGraph) -> Iterator[list[Operation]]:
    """The operations in order, those of a module that is one layer together."""
    together: list[Operation] = []
    for operation in graph.operations:
        if together and operation.call != together[0].call:
            yield together
            together = []
        if operation.module_class in WHOLE_MODULES:
            together.append(operation)
        else:
            yield [operation]
    if together:
        yield together


def _check_outputs(
    module: nn.Module, network: Network, parameters: ParameterVector, example: torch.Tensor
) -> None:
    """Compare evaluation with the module's own: NetworkError if it is not the same."""
    with torch.no_grad():
        found = to_torch(network, parameters).eval()(example)
        expected: Any = next(iter(pytree.tree_leaves(module.eval()(example))), None)
    if not isinstance(expected, torch.Tensor) or expected.shape != found.shape:
        raise NetworkError(
            f"{network.name} returns other shapes in evaluation than in training: expected logits "
            f"{tuple(found.shape)} in both"
        )
    largest = float(expected.abs().max())
    difference = float((found - expected).abs().max())
    if not difference <= TOLERANCE * largest:
        raise NetworkError(
            f"{network.name}: the network's outputs differ from the module's by {difference:.3g} "
            f"of {largest:.3g} in evaluation: expected finite values, and a forward that computes "
            "the same in training and evaluation, but for dropout, batch normalisation and "
            "auxiliary outputs"
        )
