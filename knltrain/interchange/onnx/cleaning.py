"""Puts what PyTorch's exporter writes into a form that more programs read."""

from __future__ import annotations

from typing import Any


def clean(graph: Any) -> None:
    """Change a graph in place: constants as tensors, `Flatten`, and nothing that is not used.

    The paths of this computer, which the exporter notes at each node, are removed.
    """
    _make_tensors(graph)
    _make_flatten(graph)
    _remove_unused(graph)
    for each in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        each.ClearField("metadata_props")


def _make_tensors(graph: Any) -> None:
    import onnx
    from onnx.reference import ReferenceEvaluator

    for node in [each for each in graph.node if each.op_type == "Constant"]:
        found: Any = ReferenceEvaluator(node).run(None, {})
        graph.initializer.append(onnx.numpy_helper.from_array(found[0], node.output[0]))
        graph.node.remove(node)


def _make_flatten(graph: Any) -> None:
    """A `Reshape` to (images, the rest) whose images are computed is a `Flatten`."""
    import onnx

    makers = {each.output[0]: each for each in graph.node}
    for node in graph.node:
        target = makers.get(node.input[1]) if node.op_type == "Reshape" else None
        if target is not None and target.op_type == "Concat" and len(target.input) == 2:
            flat = onnx.helper.make_node("Flatten", [node.input[0]], node.output, node.name, axis=1)
            node.CopyFrom(flat)


def _remove_unused(graph: Any) -> None:
    needed = {each.name for each in graph.output}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed.update(node.input)
    for values in (graph.initializer, graph.value_info):
        for each in [each for each in values if each.name not in needed]:
            values.remove(each)
