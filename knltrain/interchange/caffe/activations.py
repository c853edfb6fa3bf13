"""Activation functions of Caffe."""

from __future__ import annotations

from knltrain.interchange.caffe.fillers import constant, multipliers
from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.walk import Converter, Walk
from knltrain.network.layers import Activation, PReLU, ReLU


def relu(layer: NetLayer, walk: Walk) -> None:
    """A ReLU, perhaps a leaky one."""
    slope = layer.message.message("relu_param").number("negative_slope", 0.0)
    walk.add(layer, ReLU(layer.name, slope), (layer.only(),))


def prelu(layer: NetLayer, walk: Walk) -> None:
    """A ReLU whose slopes are learned."""
    told = layer.message.message("prelu_param")
    (factors,) = multipliers(layer, walk, 1)
    slope = constant(told.message("filler"), 0.25 if told.line_of("filler") is None else 0.0)
    ours = PReLU(layer.name, told.flag("channel_shared", False), slope, factors)
    blob = layer.only()
    walk.add(layer, ours, (blob if ours.shared else walk.unflattened(layer, blob),))


def clip(layer: NetLayer, walk: Walk) -> None:
    """A ReLU with a ceiling."""
    told = layer.message.message("clip_param")
    least, most = told.number("min", None), told.number("max", None)
    if least != 0 or most is None or most <= 0:
        raise layer.refused(
            f"Clip from {least} to {most}: expected min: 0 and a max above it",
            told.line_of("max" if least == 0 else "min"),
        )
    walk.add(layer, ReLU(layer.name, ceiling=most), (layer.only(),))


def swish(layer: NetLayer, walk: Walk) -> None:
    """x sigmoid(x)."""
    told = layer.message.message("swish_param")
    beta = told.number("beta", 1.0)
    if beta != 1:
        raise layer.refused(f"beta: {beta:g} is not there: expected 1", told.line_of("beta"))
    walk.add(layer, Activation(layer.name, "silu"), (layer.only(),))


def activation(function: str, settings: str) -> Converter:
    """Return what makes an Activation of a layer whose settings change no number."""

    def convert(layer: NetLayer, walk: Walk) -> None:
        layer.message.message(settings)  # Its engine alone.
        walk.add(layer, Activation(layer.name, function), (layer.only(),))

    return convert
