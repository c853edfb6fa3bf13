"""Layers with more than one input."""

from __future__ import annotations

from typing import Final

from knltrain.interchange.torch_terms.channels import read_scale
from knltrain.interchange.torch_terms.terms import (
    ANY,
    CHANNEL_AXES,
    Call,
    Reader,
    Readers,
    Terms,
    TorchTerms,
    number_of,
)
from knltrain.network.layers import Addition, Affine, ChannelProduct, Concatenation, Layer, Shape


def _concatenation(_layer: Concatenation, _shape: Shape) -> TorchTerms:
    return TorchTerms(join="cat")


def _addition(_layer: Addition, _shape: Shape) -> TorchTerms:
    return TorchTerms(join="add")


def _channel_product(_layer: ChannelProduct, _shape: Shape) -> TorchTerms:
    return TorchTerms(join="channel product")


def _read_sum(call: Call) -> Layer:
    call.expect(alpha=1)
    if "other" not in call.shapes:
        return Affine(call.name, 1.0, number_of(call), call.inputs)
    if len(call.inputs) != 2:
        raise call.refused("a sum with a parameter, expected another layer's output")
    if call.inputs[0] == call.inputs[1]:
        return Affine(call.name, 2.0, inputs=call.inputs[:1])
    if call.shapes["other"] != call.shapes["self"]:
        raise call.refused(
            f"a sum of shapes {call.shapes['self']} and {call.shapes['other']}, expected the same"
        )
    return Addition(call.name, inputs=call.inputs)


def _read_concatenation(call: Call) -> Layer | None:
    call.expect_channels()
    return Concatenation(call.name, inputs=call.inputs) if len(call.inputs) > 1 else None


def _read_product(call: Call) -> Layer:
    if "other" not in call.shapes:
        return Affine(call.name, number_of(call), inputs=call.inputs)
    if call.parameters:
        return read_scale(call)
    if sorted(call.forms) not in (["map", "mean"], ["map last", "mean last"]):
        raise call.refused(
            f"a product of shapes {' and '.join(map(str, call.shapes.values()))}, expected feature "
            "maps (C, H, W) and factors (C, 1, 1) made of means of maps"
        )
    factors = next(i for i, form in enumerate(call.forms) if form.startswith("mean"))
    return ChannelProduct(call.name, (call.inputs[1 - factors], call.inputs[factors]))


TERMS: Final[Terms] = {
    Addition: _addition,
    ChannelProduct: _channel_product,
    Concatenation: _concatenation,
}
READERS: Final[Readers] = {
    "add": Reader(_read_sum, ANY),
    "mul": Reader(_read_product, ANY, {"self": "scale", "other": "scale"}, mixed=True),
    "cat": Reader(_read_concatenation, tuple(CHANNEL_AXES)),
}
