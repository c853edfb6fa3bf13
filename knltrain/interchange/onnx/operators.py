"""Operators of ONNX without parameters: what each is here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from knltrain.interchange.onnx.graph import Node
from knltrain.interchange.onnx.reading import Reading
from knltrain.interchange.onnx.values import EVERY, Form, Value
from knltrain.network.layers import (
    Activation,
    Addition,
    Affine,
    ChannelProduct,
    ChannelScale,
    ChannelShuffle,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    LocalResponseNormalisation,
    ReLU,
)

Reader: TypeAlias = Callable[[Node, Reading], None]
_NEAR: Final = 1e-6


def _relu(node: Node, reading: Reading) -> None:
    slope = float(node.settings.get("alpha", 0.01)) if node.kind == "LeakyRelu" else 0.0
    value = reading.value(node, 0)
    reading.add(node, ReLU(reading.name_of(node), slope), (value,), value.form)


def _clip(node: Node, reading: Reading) -> None:
    bounds = [node.settings.get(key) for key in ("min", "max")]
    for place, bound in enumerate(bounds):
        if bound is None and (given := reading.constant(node, place + 1)) is not None:
            bounds[place] = float(given)
    least, most = bounds
    if least != 0 or (most is not None and most <= 0):
        raise node.refused(f"values from {least} to {most}, expected from 0")
    ceiling, value = math.inf if most is None else float(most), reading.value(node, 0)
    reading.add(node, ReLU(reading.name_of(node), ceiling=ceiling), (value,), value.form)


def _activation(function: str) -> Reader:
    def read(node: Node, reading: Reading) -> None:
        value = reading.value(node, 0)
        reading.add(node, Activation(reading.name_of(node), function), (value,), value.form)

    return read


def _hard_sigmoid(node: Node, reading: Reading) -> None:
    alpha, beta = node.settings.get("alpha", 0.2), node.settings.get("beta", 0.5)
    if abs(alpha - 1 / 6) > _NEAR or abs(beta - 0.5) > _NEAR:
        raise node.refused(f"alpha = {alpha}, beta = {beta}, expected 1/6 and 1/2")
    _activation("hard_sigmoid")(node, reading)


def _gelu(node: Node, reading: Reading) -> None:
    is_tanh = node.settings.get("approximate", "none") == "tanh"
    _activation("gelu_tanh" if is_tanh else "gelu")(node, reading)


def _lrn(node: Node, reading: Reading) -> None:
    found = node.settings
    ours = LocalResponseNormalisation(
        reading.name_of(node),
        found["size"],
        found.get("alpha", 1e-4),
        found.get("beta", 0.75),
        found.get("bias", 1.0),
    )
    reading.add(node, ours, (reading.value(node, 0, "map"),))


def _dropout(node: Node, reading: Reading) -> None:
    value, given = reading.value(node, 0), reading.constant(node, 1)
    rate = float(node.settings.get("ratio", 0.5) if given is None else given)
    reading.add(node, Dropout(reading.name_of(node), rate), (value,), value.form)


def _concat(node: Node, reading: Reading) -> None:
    if node.settings["axis"] not in (1, -3):
        raise node.refused(f"axis = {node.settings['axis']}, expected 1, the channels")
    values = [reading.value(node, place, "map", "vector") for place in range(len(node.inputs))]
    if len(values) == 1:
        reading.same(node, values[0])
        return
    reading.add(node, Concatenation(reading.name_of(node)), values)


def _arithmetic(node: Node, reading: Reading) -> None:
    """Of two values, or of a value and a constant."""
    first, second = node.inputs
    if first in reading.values and second in reading.values:
        _OF_TWO[node.kind](node, reading) if node.kind in _OF_TWO else _refuse_two(node)
        return
    place = 0 if first in reading.values else 1
    value, number = reading.value(node, place), reading.constant(node, 1 - place)
    assert number is not None
    if number.size != 1:
        _vector(node, reading, value, number)
        return
    constant = float(number.ravel()[0])
    if node.kind == "Div" and (place == 1 or not constant):
        raise node.refused("a quotient by what is computed, or by 0, expected a number")
    factor, offset = {
        "Add": (1.0, constant),
        "Sub": (1.0, -constant) if place == 0 else (-1.0, constant),
        "Mul": (constant, 0.0),
        "Div": (1 / (constant or 1), 0.0),
    }[node.kind]
    ours = Affine(reading.name_of(node), factor, offset)
    reading.add(node, ours, (value,), value.form)


def _refuse_two(node: Node) -> None:
    raise node.refused("of two computed values, expected a number")


def _vector(node: Node, reading: Reading, value: Value, number: Any) -> None:
    """A sum with a constant vector is the bias of a layer that has none, a product a factor."""
    if node.kind == "Mul":
        _factors(node, reading, reading.unflattened(value), number)
        return
    layer = reading.layers.get(value.layer)
    if (
        node.kind != "Add"
        or not isinstance(layer, (Convolution, Dense))
        or layer.bias
        or not value.is_by_channel(number.shape)
        or reading.readers_of(layer.name)
    ):
        raise node.refused(
            f"a constant of shape {number.shape}, expected one number, or the bias of a "
            "convolution or dense layer before it"
        )
    reading.layers[layer.name] = replace(layer, bias=True)
    reading.tensors[f"{layer.name}.bias"] = number
    reading.same(node, value)


def _factors(node: Node, reading: Reading, value: Value, number: Any) -> None:
    if not value.is_by_channel(number.shape):
        raise node.refused(
            f"a constant of shape {number.shape}, expected one number, or one for each channel"
        )
    name = reading.name_of(node, int(node.inputs[0] in reading.values))
    reading.add(node, ChannelScale(name), (value,), value.form)
    reading.tensors[f"{name}.scale"] = number


def _sum(node: Node, reading: Reading) -> None:
    total, *others = (reading.value(node, place) for place in range(len(node.inputs)))
    if not others:
        reading.same(node, total)
    for other in others:
        if other.shape != total.shape or other.form != total.form:
            raise node.refused(
                f"a sum of shapes {total.shape} and {other.shape}, expected the same"
            )
        ours = Addition(reading.name_of(node))
        if other.layer == total.layer:
            reading.add(node, Affine(ours.name, 2.0), (total,), total.form)
        else:
            reading.add(node, ours, (total, other), total.form)
        total = reading.values[node.outputs[0]]


_GATED: Final = {"sigmoid": "silu", "hard_sigmoid": "hard_swish"}


def _product(node: Node, reading: Reading) -> None:
    """Of maps and factors; or of a value and a function of it, which is SiLU or hard-swish."""
    values = [reading.value(node, place) for place in (0, 1)]
    for gate, value in (values, values[::-1]):
        layer = reading.layers.get(gate.layer)
        if (
            isinstance(layer, Activation)
            and layer.function in _GATED
            and layer.inputs == (value.layer,)
            and not reading.readers_of(layer.name)
        ):
            del reading.layers[layer.name]
            ours = Activation(reading.name_of(node), _GATED[layer.function])
            reading.add(node, ours, (value,), value.form)
            return
    forms = [each.form for each in values]
    if sorted(forms) != ["map", "mean"]:
        raise node.refused(
            f"a product of shapes {values[0].shape} and {values[1].shape}, expected maps (N,C,H,W) "
            "and factors (N,C,1,1)"
        )
    maps, factors = values if forms[0] == "map" else values[::-1]
    reading.add(node, ChannelProduct(reading.name_of(node)), (maps, factors))


_OF_TWO: Final[Mapping[str, Reader]] = {"Add": _sum, "Mul": _product}


def _identity(node: Node, reading: Reading) -> None:
    reading.same(node, reading.value(node, 0, *EVERY))


def _shaped(node: Node, reading: Reading) -> None:
    """Flatten, Reshape, Squeeze, Unsqueeze: nothing but another form of the same values.

    Maps in groups that are shuffled become maps by a ChannelShuffle.
    """
    value = reading.value(node, 0, *EVERY)
    dims = value.dims(reading.graph.images[0])
    found = _target(node, reading, dims)
    if found == dims:
        reading.same(node, value)
        return
    if value.form in ("shuffled", "map last"):
        if value.form == "shuffled" and found == replace(value, form="map").dims(dims[0]):
            reading.add(node, ChannelShuffle(reading.name_of(node), value.groups), (value,))
            return
        raise node.refused(f"from shape {dims} to {found}, expected to shuffle groups of channels")
    groups = found[1] if len(found) == len(dims) + 1 else 0
    if value.form == "map" and groups > 0 and value.shape[-1] % groups == 0:
        grouped = replace(value, form="groups", groups=groups)
        if grouped.dims(dims[0]) == found:
            reading.same(node, grouped)
            return
    forms: tuple[Form, ...] = ("vector", "line", "mean")
    for form in ("map", "flat") if len(value.shape) == 3 else forms:
        other = replace(value, form=form)
        if other.dims(dims[0]) == found:
            reading.same(node, other)
            return
    raise node.refused(f"from shape {dims} to {found}, expected to flatten whole images")


def _target(node: Node, reading: Reading, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a node's output: that of the reference implementation, of zeros."""
    from onnx.reference import ReferenceEvaluator

    given = {name: reading.constants[name] for name in node.inputs[1:] if name in reading.constants}
    given[node.inputs[0]] = np.broadcast_to(np.float32(0), dims)
    try:
        found: Any = ReferenceEvaluator(node.proto).run(None, given)
    except Exception as error:
        raise node.refused(f"it cannot be computed ({error})") from error
    return tuple(found[0].shape)


def _softmax(node: Node, reading: Reading) -> None:
    """Nothing at the graph's end: the loss has it."""
    if node.outputs[0] != reading.graph.output:
        raise node.refused("in the middle, expected it at the end")
    value = reading.value(node, 0, "vector")
    if node.settings.get("axis", -1) not in (1, -1):
        raise node.refused(f"axis = {node.settings['axis']}, expected 1, the classes")
    reading.same(node, value)


OPERATORS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _arithmetic),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _shaped),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    "Clip": _clip,
    "Concat": _concat,
    "Dropout": _dropout,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _activation("hard_swish"),
    "Identity": _identity,
    "LRN": _lrn,
    "LeakyRelu": _relu,
    "Relu": _relu,
    "Sigmoid": _activation("sigmoid"),
    "Sum": _sum,
    "Tanh": _activation("tanh"),
}
"""Types of nodes -> what becomes of them."""
