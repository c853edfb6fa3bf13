"""The graph of a network's layers: producers and consumers of each output, and its checks."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knltrain.errors import NetworkError, unknown_name
from knltrain.network.layers import IMAGES, Layer, ParameterSpec, Shape

LAYER_NAME = re.compile(r"[A-Za-z0-9_/-]+(\.[A-Za-z0-9_/-]+)*")


@dataclass(frozen=True, slots=True)
class Output:
    """A layer whose outputs are logits, and the weight of their loss in the sum of all losses."""

    layer: str
    weight: float = 1.0


def check_names(network: str, layers: Sequence[Layer]) -> None:
    """Refuse names that are impossible, taken or missing: NetworkError."""
    if not layers:
        raise NetworkError(f"network '{network}' has no layers: give at least one")
    for name, count in Counter(layer.name for layer in layers).items():
        if not LAYER_NAME.fullmatch(name):
            raise NetworkError(
                f"layer name '{name}' in network '{network}': "
                "expected letters, digits, '_', '-' and '/', and '.' between them"
            )
        if name == IMAGES:
            raise NetworkError(
                f"a layer of network '{network}' is named '{IMAGES}', which stands for the "
                "network's input: give it another name"
            )
        if count > 1:
            raise NetworkError(
                f"{count} layers of network '{network}' are named '{name}': names must differ"
            )


def resolved_inputs(network: str, layers: Sequence[Layer]) -> dict[str, tuple[str, ...]]:
    """The names of every layer's inputs; NetworkError unless they are "images" or earlier layers.

    A layer that names none takes the output of the layer before.
    """
    inputs: dict[str, tuple[str, ...]] = {}
    before = IMAGES
    for layer in layers:
        names = layer.inputs or (before,)
        for name in names:
            if name != IMAGES and name not in inputs:
                raise NetworkError(_unknown_input(network, layer.name, name, layers, inputs))
        if len(set(names)) < len(names):
            raise NetworkError(
                f"layer '{layer.name}' of network '{network}' takes an input twice: {names}"
            )
        inputs[layer.name] = names
        before = layer.name
    return inputs


def checked_outputs(
    network: str,
    given: tuple[Output, ...],
    inputs: Mapping[str, tuple[str, ...]],
    shapes: Mapping[str, Shape],
) -> tuple[Output, ...]:
    """The outputs `given`, or if there are none the last layer.

    Raises NetworkError for unknown or repeated layers, weights that are not above 0, several
    outputs of different shapes, and layers that no output depends on.
    """
    outputs = given or (Output(list(inputs)[-1]),)
    for output in outputs:
        if output.layer not in inputs:
            kind = f"output of network '{network}'"
            raise NetworkError(unknown_name(kind, output.layer, inputs))
        if not 0 < output.weight < math.inf:
            raise NetworkError(
                f"output '{output.layer}' of network '{network}': weight = {output.weight}, "
                "expected above 0"
            )
    found = [(output.layer, shapes[output.layer]) for output in outputs]
    if len(set(found)) < len(found) or len({shape for _, shape in found}) > 1:
        raise NetworkError(
            f"outputs of network '{network}' are {found}: expected different layers, all with the "
            "same number of classes"
        )
    unused = inputs.keys() - ancestors([output.layer for output in outputs], inputs)
    if unused:
        raise NetworkError(
            f"no output of network '{network}' depends on {sorted(unused)}: leave these layers "
            "out, or name them as inputs or outputs"
        )
    return outputs


def ancestors(names: Sequence[str], inputs: Mapping[str, tuple[str, ...]]) -> set[str]:
    """`names` and all layers that they depend on."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name != IMAGES and name not in found:
            found.add(name)
            waiting += inputs[name]
    return found


def behind_parameters(
    inputs: Mapping[str, tuple[str, ...]], parameters: Sequence[ParameterSpec]
) -> frozenset[str]:
    """The layers with `parameters` that are no statistics, and all layers that depend on them."""
    trained = {spec.layer for spec in parameters if not spec.is_statistic}
    found: set[str] = set()
    for name, sources in inputs.items():
        if name in trained or not found.isdisjoint(sources):
            found.add(name)
    return frozenset(found)


def _unknown_input(
    network: str,
    layer: str,
    name: str,
    layers: Sequence[Layer],
    earlier: Mapping[str, tuple[str, ...]],
) -> str:
    if name in {other.name for other in layers}:
        return (
            f"layer '{layer}' of network '{network}' takes '{name}', which does not stand before "
            "it: a layer only takes what comes before"
        )
    return unknown_name(
        f"input of layer '{layer}' of network '{network}'", name, (IMAGES, *earlier)
    )
