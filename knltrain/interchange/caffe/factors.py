"""Caffe's layers that multiply channels by factors, or add to them."""

from __future__ import annotations

import math
from typing import Final

from knltrain.interchange.caffe.fillers import constant, multipliers
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net_layer import Blob, NetLayer
from knltrain.interchange.caffe.normalisation import scale_of_norm
from knltrain.interchange.caffe.walk import Walk
from knltrain.network.layers import (
    Addition,
    BatchNormalisation,
    ChannelProduct,
    ChannelScale,
    Convolution,
    Multipliers,
)

_KEPT: Final = Multipliers(0.0, 0.0)


def scale(layer: NetLayer, walk: Walk) -> None:
    """Factors of a blob, or trained ones: of a batch normalisation, or alone.

    Alone with a bias it is a convolution of 1x1, a group for each channel.
    """
    told = layer.message.message("scale_param")
    if len(layer.bottoms) == 2:
        _check_factors(layer, told)
        walk.add(layer, ChannelProduct(layer.name), _maps_and_factors(layer, *layer.inputs))
        return
    has_bias = told.flag("bias_term", False)
    blob = layer.only(is_map=has_bias)
    _check_channels(layer, told)
    before = next((each for each in reversed(walk.layers) if each.name == blob.source), None)
    if isinstance(before, BatchNormalisation) and before.scale_multipliers == _KEPT:
        scale_of_norm(layer, walk, before)
        return
    factors = multipliers(layer, walk, 1 + has_bias)
    value = constant(told.message("filler"), 1.0)
    if not has_bias:
        scaled = ChannelScale(layer.name, value, factors[0])
        walk.add(layer, scaled, (walk.unflattened(layer, blob),))
        return
    ours = _by_channel(layer, blob, value, constant(told.message("bias_filler")), *factors)
    walk.add(layer, ours, (blob,))


def bias(layer: NetLayer, walk: Walk) -> None:
    """Trained summands: a convolution of 1x1 whose weights stay 1."""
    told = layer.message.message("bias_param")
    if len(layer.bottoms) == 2:
        raise layer.refused("Bias of two bottoms: expected one, or Eltwise for a sum of two maps")
    blob = layer.only(is_map=True)
    _check_channels(layer, told)
    (factor,) = multipliers(layer, walk, 1)
    ours = _by_channel(layer, blob, 1.0, constant(told.message("filler")), _KEPT, factor)
    walk.add(layer, ours, (blob,))


def axpy(layer: NetLayer, walk: Walk) -> None:
    """a x + y, with a factor `a` for each channel: the end of a squeeze-and-excitation block."""
    if len(layer.bottoms) != 3 or len(layer.tops) != 1:
        raise layer.refused(
            f"Axpy of {list(layer.bottoms)}: expected three bottoms, factors, maps and summands, "
            "and one top"
        )
    factors, maps, others = layer.inputs
    product = ChannelProduct(f"{layer.name}/product")
    scaled = walk.add_hidden(layer, product, _maps_and_factors(layer, maps, factors))
    layer.check_values(others)
    walk.add(layer, Addition(layer.name), (scaled, others))


def _maps_and_factors(layer: NetLayer, maps: Blob, factors: Blob) -> tuple[Blob, Blob]:
    for blob in (maps, factors):
        layer.check_values(blob)
    if maps.flat or len(maps.shape) != 3 or factors.shape != maps.shape[2:]:
        raise layer.refused(
            f"{layer.kind} of shapes {maps.shape} and {factors.shape}: expected feature maps and a "
            "factor for each channel, as behind global_pooling or InnerProduct"
        )
    return maps, factors


def _check_factors(layer: NetLayer, told: Message) -> None:
    if told.whole("axis", 1) != 0:
        raise layer.refused(
            "Scale of two bottoms: expected axis: 0, a factor for each image and channel",
            told.line_of("axis"),
        )
    if told.flag("bias_term", False):
        raise layer.refused(
            "Scale of two bottoms with a bias: expected a layer Bias behind it",
            told.line_of("bias_term"),
        )


def _check_channels(layer: NetLayer, told: Message) -> None:
    if (told.whole("axis", 1), told.whole("num_axes", 1)) != (1, 1):
        raise layer.refused(
            f"{layer.kind}: expected axis: 1 and num_axes: 1, channel by channel",
            told.line_of("axis") or told.line_of("num_axes"),
        )


def _by_channel(
    layer: NetLayer,
    blob: Blob,
    factor: float,
    summand: float,
    factor_multipliers: Multipliers,
    summand_multipliers: Multipliers,
) -> Convolution:
    channels = blob.shape[2]
    assert math.isfinite(factor)
    return Convolution(
        layer.name,
        channels,
        1,
        groups=channels,
        initialiser=f"constant:{factor!r}",
        bias_value=summand,
        weights_multipliers=factor_multipliers,
        bias_multipliers=summand_multipliers,
    )
