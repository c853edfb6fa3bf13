"""Makes layers of the operations of a module's forward pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from torch import fx, nn

from knltrain.errors import NetworkError
from knltrain.interchange.advice import unknown_operation
from knltrain.interchange.exported_graph import (
    ExportedGraph,
    Operation,
    is_tensor,
    shape_of,
)
from knltrain.interchange.parameter_reading import ParameterReading
from knltrain.interchange.reshaping import (
    CONVERTING,
    PARTING,
    PERMUTING,
    RESHAPING,
    WITHOUT_EFFECT,
    axes_order,
    form_behind,
    form_permuted,
    form_reshaped,
)
from knltrain.interchange.torch_terms import READERS, WHOLE_MODULES, Call, Reader
from knltrain.network.graph import Output
from knltrain.network.layers import IMAGES, ChannelShuffle, ChannelSlice, Flatten, Layer


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the module's graph: the layer whose output it is, and its form in PyTorch."""

    layer: str
    form: str


@final
class ModuleReading:
    """The `layers` of a module, and `keys`: the name of each parameter -> its name in the state."""

    def __init__(self, graph: ExportedGraph, module: nn.Module) -> None:
        self.layers: list[Layer] = []
        self._graph, self._module = graph, module
        self._values = {graph.images: _Value(IMAGES, "map")}
        self._parameters = ParameterReading(graph)
        self.keys = self._parameters.keys
        self._parted: dict[fx.Node, Operation] = {}
        self._names = {IMAGES}
        needed = _needed(graph)
        for operations in _by_layer(graph):
            if needed.isdisjoint(each.node for each in operations):
                continue
            if len(operations) > 1 or operations[0].module_class in WHOLE_MODULES:
                self._read_whole(operations)
            else:
                self._read(operations[0])

    def outputs(self, auxiliary_weights: Sequence[float]) -> tuple[Output, ...]:
        """The network's outputs."""
        nodes = self._graph.outputs
        try:
            weights = (1.0, *map(float, auxiliary_weights))
        except (TypeError, ValueError):
            raise NetworkError(
                f"auxiliary_weights = {auxiliary_weights!r}: expected numbers, as in (0.3, 0.3)"
            ) from None
        if len(nodes) != len(weights):
            raise NetworkError(
                f"{type(self._module).__name__} has {len(nodes)} outputs in training, and "
                f"auxiliary_weights = {weights[1:]}: expected {len(nodes) - 1} weights, "
                "one for each output but the first, such as 0.3; a configuration has them as "
                "loss.auxiliary_weights"
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
        if self._parameters.take_view(operation):
            return
        if kind in PARTING:
            self._parted[operation.node] = operation
            return
        if operation.arguments.get("0") in self._parted:
            operation = _part(self._parted[operation.arguments["0"]], operation)
            kind = operation.operator
        (node, *others) = self._sources(operation)
        before = self._values[node]
        if kind in WITHOUT_EFFECT or (kind in CONVERTING and _has_type_of(operation.node, node)):
            self._values[operation.node] = before
            return
        if kind in RESHAPING:
            self._values[operation.node] = self._reshaped(operation, node)
            return
        if kind in PERMUTING:
            self._values[operation.node] = self._permuted(operation, node)
            return
        reader = READERS.get(kind)
        if reader is None:
            raise NetworkError(
                f"{operation.where}: {unknown_operation(operation.operator, READERS)}"
            )
        if "flat" not in reader.takes and "vector" in reader.takes:
            for each in (node, *others):
                self._flatten(each)
        before, values = self._values[node], [self._values[each] for each in (node, *others)]
        self._check_forms(operation, reader, values)
        call = self._call(operation, values)
        layer = _placed(operation, partial(reader.layer, call))
        if layer is None:
            self._values[operation.node] = before
            return
        layer = self._apart(layer, (node, *others))
        self._add(layer, operation, before)
        for argument, role in reader.tensors.items():
            tensor = operation.arguments[argument]
            if tensor is not None and not (reader.mixed and argument not in call.parameters):
                self._parameters.take(f"{layer.name}.{role}", tensor, operation)

    def _read_whole(self, operations: Sequence[Operation]) -> None:
        """Make one layer of all operations of a module."""
        first, last = operations[0], operations[-1]
        inside = {operation.node for operation in operations}
        (source,) = {node for each in operations for node in self._sources(each, inside)}
        before = self._values[source]
        make = partial(WHOLE_MODULES[first.module_class], self._named(first), (before.layer,))
        layer = _placed(first, partial(make, self._module.get_submodule(first.module)))
        assert layer is not None
        self._add(layer, last, before)

    def _sources(self, operation: Operation, inside: Set[fx.Node] = frozenset()) -> list[fx.Node]:
        """The values that an operation takes, but for parameters and those `inside`."""
        found: list[fx.Node] = []
        fx.node.map_arg(operation.arguments, found.append)
        known = self._parameters.nodes | inside
        sources = [node for node in found if is_tensor(node) and node not in known]
        for node in sources:
            if node not in self._values:
                raise NetworkError(
                    f"{operation.where}: {operation.operator} takes '{node}', which is no output "
                    "of a layer: expected layers of images and parameters only"
                )
        if not inside and not any(map(is_tensor, found)):
            raise NetworkError(
                f"{operation.where}: {operation.operator} makes values of its own: expected those "
                "of layers, images and parameters; random ones in torch.nn.Dropout, torchvision's "
                "StochasticDepth or timm's DropPath only"
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
        if before.form == "shuffled" and form == "map":
            assert shape is not None
            return self._shuffled(operation, before, groups=shape[1])
        return _Value(before.layer, form)

    def _shuffled(self, operation: Operation, before: _Value, groups: int) -> _Value:
        """Make a layer of a view in groups, a transposition of them and the way back."""
        wanted = ".".join(filter(None, (operation.module, "channel_shuffle")))
        layer = ChannelShuffle(self._unused(wanted), groups, (before.layer,))
        self._append(layer)
        return _Value(layer.name, "map")

    def _permuted(self, operation: Operation, node: fx.Node) -> _Value:
        before, moved = self._values[node], operation.node
        others, rank = moved.args[1:], len(moved.meta["val"].shape)
        order = axes_order(lambda values: moved.target(values, *others, **moved.kwargs), rank)  # type: ignore[operator]
        form = None if order is None else form_permuted(before.form, order)
        if form is None:
            raise NetworkError(
                f"{operation.where}: {operation.operator} to "
                f"{tuple(operation.node.meta['val'].shape)}, expected channels to the end or back, "
                "as permute(0, 2, 3, 1), or groups of channels with their members, as "
                "transpose(1, 2)"
            )
        return _Value(before.layer, form)

    def _flatten(self, node: fx.Node) -> None:
        """Make a layer of a flatten of maps whose result no dense layer takes."""
        before = self._values[node]
        if before.form == "flat":
            layer = Flatten(self._unused(f"{before.layer}.flatten"), (before.layer,))
            self._append(layer)
            self._values[node] = _Value(layer.name, "vector")

    def _apart(self, layer: Layer, nodes: Sequence[fx.Node]) -> Layer:
        """`layer` of `nodes`, with a copy in place of an input that comes a second time."""
        if len(set(layer.inputs)) == len(layer.inputs):
            return layer
        channels = {}
        for node in nodes:
            value, shape = self._values[node], shape_of(node) or ()
            channels[value.layer] = shape[-1 if value.form.endswith(" last") else 0]
        inputs: list[str] = []
        for name in layer.inputs:
            if name in inputs:
                again = self._unused(f"{name}.again")
                self._append(ChannelSlice(again, 0, channels[name], (name,)))
                inputs.append(again)
            else:
                inputs.append(name)
        return replace(layer, inputs=tuple(inputs))  # type: ignore[type-var]

    def _check_forms(self, operation: Operation, reader: Reader, values: Sequence[_Value]) -> None:
        forms = {value.form for value in values}
        if (len(forms) > 1 and not reader.mixed) or not forms <= set(reader.takes):
            found = " and ".join(_FORMS[form] for form in sorted(forms))
            expected = " or ".join(dict.fromkeys(_FORMS[form] for form in reader.takes))
            raise NetworkError(
                f"{operation.where}: {operation.operator} of {found}, expected {expected}"
            )

    def _call(self, operation: Operation, values: Sequence[_Value]) -> Call:
        shapes, parameters = {}, set()
        for key, value in operation.arguments.items():
            if isinstance(value, fx.Node) and is_tensor(value):
                own = tuple(value.meta["val"].shape)
                shapes[key] = own if value in self._parameters.nodes else shape_of(value) or ()
                if value in self._parameters.nodes:
                    parameters.add(key)
        return Call(
            self._named(operation),
            tuple(value.layer for value in values),
            tuple(value.form for value in values),
            operation.arguments,
            shapes,
            operation.where,
            parameters,
        )

    def _append(self, layer: Layer) -> None:
        self.layers.append(layer)
        self._names.add(layer.name)

    def _add(self, layer: Layer, operation: Operation, before: _Value) -> None:
        self._append(layer)
        form = form_behind(layer, before.form, shape_of(operation.node) or ())
        self._values[operation.node] = _Value(layer.name, form)

    def _named(self, operation: Operation) -> str:
        """A name for an operation's layer: its module's, or its own within the module's."""
        own = operation.operator.removesuffix("_")
        kind = operation.module_class
        is_leaf = kind.startswith("torch.nn.modules.") or kind in WHOLE_MODULES
        module = operation.module
        return self._unused(module if is_leaf and module else ".".join(filter(None, (module, own))))

    def _unused(self, wanted: str) -> str:
        """A name that no layer has, with a number if need be."""
        wanted = _NOT_IN_NAMES.sub("_", wanted)
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
    "map last": "feature maps with channels last",
    "mean last": "means of maps that are not flattened",
    "groups": "groups of channels",
    "shuffled": "groups of channels",
}


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_/.-]")


def _part(parted: Operation, taken: Operation) -> Operation:
    """One of the parts of a value, `taken` out of several."""
    given, number = dict(parted.arguments), taken.arguments["1"]
    axis = given.get("dim", 0)
    given["sizes"] = [each.shape[axis] for each in parted.node.meta["val"]]
    return Operation(taken.node, parted.operator, {**given, "part": number})


def _has_type_of(node: fx.Node, other: fx.Node) -> bool:
    return bool(node.meta["val"].dtype == other.meta["val"].dtype)


def _needed(graph: ExportedGraph) -> set[fx.Node]:
    """The values that an output needs."""
    sources = {each.node: each.arguments for each in graph.operations}
    needed: set[fx.Node] = set()
    waiting = list(graph.outputs)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            fx.node.map_arg(sources.get(node, ()), waiting.append)
    return needed


def _placed(operation: Operation, make: Callable[[], Layer | None]) -> Layer | None:
    """Make a layer; its errors name the place."""
    try:
        return make()
    except NetworkError as error:
        if str(error).startswith(operation.where):
            raise
        raise NetworkError(f"{operation.where}: {error}") from None


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
