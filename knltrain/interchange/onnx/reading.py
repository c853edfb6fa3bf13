"""The way through a graph of ONNX: which layer of ours made each value, and what is constant."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np

from knltrain.interchange.onnx.graph import Array, Graph, Node
from knltrain.interchange.onnx.values import EVERY, GROUPED, Form, Value
from knltrain.network.graph import ancestors
from knltrain.network.layers import IMAGES, Flatten, Layer

_MOST_CONSTANT: Final = 1 << 28
"""Values of a constant that is computed."""
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_/.-]+")
_ROLES: Final = re.compile(r"[._/]?(weights?|kernel|bias|scale|W|B)$")


@final
@dataclass(slots=True, eq=False)
class Reading:
    """What has been found on the way: layers, their tensors by parameter, and values by name."""

    graph: Graph
    layers: dict[str, Layer] = field(default_factory=dict)
    tensors: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _, channels, height, width = self.graph.images
        self.values[self.graph.input] = Value(IMAGES, (height, width, channels), "map")
        self.constants |= self.graph.tensors

    def value(self, node: Node, place: int, *forms: Form) -> Value:
        """An input that layers have made; NetworkError if it is a constant, or of another form."""
        name = node.inputs[place] if place < len(node.inputs) else ""
        if name not in self.values:
            raise node.refused(f"input '{name}' is a constant, expected what other nodes compute")
        found = self.values[name]
        forms = forms or tuple(form for form in EVERY if form not in GROUPED)
        if found.form not in forms:
            raise node.refused(
                f"an input of shape {found.dims(self.graph.images[0])}, expected "
                f"{' or '.join(_TOLD[form] for form in forms)}"
            )
        return found

    def constant(self, node: Node, place: int) -> Array | None:
        """An input that is constant, None where it is left out."""
        name = node.inputs[place] if place < len(node.inputs) else ""
        if not name:
            return None
        if name not in self.constants:
            raise node.refused(f"input '{name}' is computed, expected a constant")
        return self.constants[name]

    def numbers(self, node: Node, key: str, place: int) -> list[int] | None:
        """Whole numbers that are a setting, or in later versions of ONNX an input."""
        if key in node.settings:
            return [int(each) for each in node.settings[key]]
        found = self.constant(node, place)
        return None if found is None else [int(each) for each in found.ravel()]

    def name_of(self, node: Node, place: int | None = None) -> str:
        """A layer's name: that of the tensor at `place`, without its role, or of the output."""
        stem = node.outputs[0]
        if place is not None:
            tensor = node.inputs[place]
            stem = _ROLES.sub("", tensor) if _ROLES.search(tensor) else stem
        parts = (_FOREIGN.sub("_", each) for each in stem.split("."))
        name = ".".join(filter(None, parts)) or node.kind
        number = 1
        while name in self.layers or name == IMAGES:
            number += 1
            name = f"{(stem and _FOREIGN.sub('_', stem)) or node.kind}_{number}".strip(".")
        return name

    def add(
        self,
        node: Node,
        ours: Layer,
        inputs: Sequence[Value],
        form: Form | None = None,
        output: int = 0,
    ) -> None:
        """Add a layer that takes `inputs`; its outputs are one of the node's, in `form`."""
        changed: Any = ours
        ours = replace(changed, inputs=tuple(each.layer for each in inputs))
        shape = ours.output_shape(tuple(each.shape for each in inputs))
        self.layers[ours.name] = ours
        self.values[node.outputs[output]] = Value(
            ours.name, shape, form or ("map" if len(shape) == 3 else "vector")
        )

    def same(self, node: Node, value: Value) -> None:
        """The node's output is that value, perhaps in another form."""
        self.values[node.outputs[0]] = value

    def unflattened(self, value: Value) -> Value:
        """A flattened map as a vector, whose units a layer tells apart."""
        if value.form != "flat":
            return value
        ours = Flatten(f"{value.layer}.flat", (value.layer,))
        while self.layers.setdefault(ours.name, ours) != ours:
            ours = replace(ours, name=f"{ours.name}_")
        return Value(ours.name, (math.prod(value.shape),), "vector")

    def readers_of(self, layer: str) -> int:
        """How many layers take the outputs of a layer."""
        return sum(layer in each.inputs for each in self.layers.values())

    def fold(self, node: Node) -> bool:
        """Compute a node whose inputs are constants, and say whether it was one."""
        if node.kind == "Shape" and node.inputs[0] in self.values:
            dims = self.values[node.inputs[0]].dims(self.graph.images[0])
            begin, end = node.settings.get("start"), node.settings.get("end")
            self.constants[node.outputs[0]] = np.array(dims, np.int64)[begin:end]
            return True
        if any(name in self.values for name in node.inputs):
            return False
        from onnx.reference import ReferenceEvaluator

        given: Mapping[str, Array] = {
            name: self.constants[name] for name in node.inputs if name in self.constants
        }
        try:
            if node.kind in _GROWING and int(np.prod(list(given.values())[-1])) > _MOST_CONSTANT:
                raise ValueError("too large")
            found: Any = ReferenceEvaluator(node.proto).run(None, dict(given))
        except Exception as error:
            raise node.refused(f"a constant that cannot be computed ({error})") from error
        self.constants.update(zip(node.outputs, found, strict=False))
        return True

    def needed(self, output: str) -> list[Layer]:
        """The layers that one depends on, in their order."""
        needed = ancestors([output], {name: each.inputs for name, each in self.layers.items()})
        return [each for name, each in self.layers.items() if name in needed]


_GROWING: Final = ("ConstantOfShape", "Expand", "Tile", "Range")
_TOLD: Final[Mapping[str, str]] = {
    "map": "maps (N,C,H,W)",
    "map last": "maps (N,H,W,C)",
    "groups": "maps (N,groups,C/groups,H,W)",
    "shuffled": "maps (N,C/groups,groups,H,W)",
    "mean last": "means (N,1,1,C)",
    "mean": "means (N,C,1,1)",
    "line": "means (N,C,1)",
    "flat": "flattened maps (N,CHW)",
    "vector": "vectors (N,C)",
}
