"""The graph of an ONNX file: its ends, its nodes and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy.typing as npt

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.installation import check_onnx

Array: TypeAlias = npt.NDArray[Any]

IMAGES_OF_ANY: Final = 2
"""Images of a batch with which shapes are computed, where the file takes any number."""

_DOMAINS: Final = ("", "ai.onnx")
_FLOAT: Final = 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation: its name, type, inputs, outputs and settings; `proto` is as in the file."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    settings: Mapping[str, Any]
    proto: Any

    def refused(self, what: str) -> NetworkError:
        """The error of what a network cannot express."""
        return NetworkError(f"node '{self.name}' ({self.kind}): {what}")

    def expect(self, **expected: object) -> None:
        """Raise NetworkError for a setting that is given, and another one."""
        for key, value in expected.items():
            given = self.settings.get(key, value)
            if given != value:
                raise self.refused(f"{key} = {given}, expected {value}")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A graph's name, input and output, the shape (N,C,H,W) of images, nodes and tensors."""

    name: str
    input: str
    output: str
    images: tuple[int, int, int, int]
    nodes: tuple[Node, ...]
    tensors: dict[str, Array]
    model: Any


def read_graph(path: Path) -> Graph:
    """The graph of a file; NetworkError for one that cannot be read, or has other ends."""
    model = _model_of(path)
    graph = model.graph
    tensors = {each.name: _array(each, path) for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in tensors]
    if len(inputs) != 1 or not graph.output:
        told = ", ".join(each.name for each in inputs) or "none"
        raise NetworkError(f"{path} has the inputs {told}: expected one, images (N,C,H,W)")
    images = _images(inputs[0], path)
    nodes = tuple(_node(place, each, path) for place, each in enumerate(graph.node))
    return Graph(graph.name, inputs[0].name, graph.output[0].name, images, nodes, tensors, model)


def _model_of(path: Path) -> Any:
    check_onnx()
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except (OSError, DecodeError, ValueError, onnx.checker.ValidationError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise NetworkError(f"{path} cannot be read ({said}): expected a file of ONNX") from error
    return model


def _images(value: Any, path: Path) -> tuple[int, int, int, int]:
    dims = value.type.tensor_type.shape.dim
    found = [int(each.dim_value) for each in dims]
    if found and not found[0]:
        found[0] = IMAGES_OF_ANY
    if len(found) != 4 or min(found) < 1 or value.type.tensor_type.elem_type != _FLOAT:
        told = [each.dim_param or each.dim_value for each in dims]
        raise NetworkError(
            f"{path}: input '{value.name}' has the shape {told}: expected images (N,C,H,W) of "
            "float32, whose channels, height and width are numbers"
        )
    return found[0], found[1], found[2], found[3]


def _array(tensor: Any, path: Path) -> Array:
    import onnx

    try:
        found: Array = onnx.numpy_helper.to_array(tensor, str(path.parent))
    except (OSError, ValueError, TypeError) as error:
        raise NetworkError(f"{path}: tensor '{tensor.name}' is damaged ({error})") from error
    return found


def _node(place: int, proto: Any, path: Path) -> Node:
    import onnx

    name = proto.name or (proto.output[0] if proto.output else f"number {place}")
    if proto.domain not in _DOMAINS:
        raise NetworkError(
            f"{path}: node '{name}' ({proto.domain}.{proto.op_type}): expected ONNX's own operators"
        )
    settings = {each.name: onnx.helper.get_attribute_value(each) for each in proto.attribute}
    for key, value in settings.items():
        if isinstance(value, bytes):
            settings[key] = value.decode("utf-8", "backslashreplace")
    return Node(name, proto.op_type, tuple(proto.input), tuple(proto.output), settings, proto)
