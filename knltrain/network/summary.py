"""What a network is, in numbers: of the whole and layer by layer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from affinity.cli.layout import table
from affinity.numbers import format_bytes
from knltrain.network.network import Network

_FLOAT_BYTES: Final = 4
_MILLION: Final = 1e6


def summary(network: Network) -> dict[str, Any]:
    """Size, work and memory of a network.

    `parameters` are trained, `statistics` are not. `multiply_adds` are those of convolutions and
    dense layers for one image, forward. `value_bytes` is the size of all layers' outputs for one
    image, which training keeps, or less where layers are fused.
    """
    values = sum(math.prod(shape) for shape in network.shapes[1:])
    return {
        "name": network.name,
        "input_shape": list(network.input_shape),
        "classes": network.output_shape[-1],
        "layers": len(network.layers),
        "parameters": network.parameter_count,
        "statistics": network.statistic_count,
        "multiply_adds": network.flops_per_image // 2,
        "value_bytes": _FLOAT_BYTES * values,
    }


def layer_summaries(network: Network) -> list[dict[str, Any]]:
    """The same of each layer: its class, inputs, output shape, parameters and multiply-adds."""
    parameters = dict.fromkeys((layer.name for layer in network.layers), 0)
    for spec in network.parameters:
        parameters[spec.layer] += 0 if spec.is_statistic else spec.size
    found = []
    for layer in network.layers:
        operation = network.operation(layer, 1)
        flops = operation.costs["forward"].flops if operation.is_product else 0
        found.append(
            {
                "name": layer.name,
                "kind": type(layer).__name__,
                "inputs": list(network.inputs_of(layer)),
                "output_shape": list(network.shape_of(layer.name)),
                "parameters": parameters[layer.name],
                "multiply_adds": flops // 2,
            }
        )
    return found


def format_networks(summaries: Iterable[dict[str, Any]]) -> str:
    """A table of networks."""
    heads = ("network", "input", "layers", "parameters", "million multiply-adds", "values")
    rows = [
        (
            each["name"],
            _sizes(each["input_shape"]),
            str(each["layers"]),
            f"{each['parameters']:,}",
            f"{each['multiply_adds'] / _MILLION:,.1f}",
            format_bytes(each["value_bytes"]),
        )
        for each in summaries
    ]
    return table(heads, rows, right=range(2, len(heads)))


def format_layers(layers: Iterable[dict[str, Any]]) -> str:
    """A table of layers."""
    heads = ("layer", "kind", "output", "parameters", "million multiply-adds")
    rows = [
        (
            each["name"],
            each["kind"],
            _sizes(each["output_shape"]),
            f"{each['parameters']:,}" if each["parameters"] else "",
            f"{each['multiply_adds'] / _MILLION:,.2f}" if each["multiply_adds"] else "",
        )
        for each in layers
    ]
    return table(heads, rows, right=(3, 4))


def _sizes(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))
