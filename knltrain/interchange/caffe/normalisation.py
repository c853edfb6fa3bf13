"""Caffe's normalisations as layers of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from knltrain.interchange.caffe.fillers import constant, multipliers
from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.walk import Walk
from knltrain.network.layers import (
    BatchNormalisation,
    Layer,
    LocalResponseNormalisation,
    Multipliers,
    WithinChannelNormalisation,
)

_FIXED: Final = Multipliers(0.0, 0.0)
_REGIONS: Final = {"ACROSS_CHANNELS": "ACROSS_CHANNELS", "WITHIN_CHANNEL": "WITHIN_CHANNEL"}


def lrn(layer: NetLayer, walk: Walk) -> None:
    """Across channels, or within them; there k is not read, as in Caffe."""
    told = layer.message.message("lrn_param")
    region = told.choice("norm_region", "ACROSS_CHANNELS", _REGIONS)
    numbers = (
        told.whole("local_size", 5),
        told.number("alpha", 1.0),
        told.number("beta", 0.75),
    )
    bias = told.number("k", 1.0)
    ours: Layer = LocalResponseNormalisation(layer.name, *numbers, bias)
    if region == "WITHIN_CHANNEL":
        ours = WithinChannelNormalisation(layer.name, *numbers)
        if bias != 1:
            line = told.line_of("k") or told.line
            walk.note(told, line, f"k: {bias:g} dropped: within channels Caffe does not read it")
    walk.add(layer, ours, (layer.only(is_map=True),))


def batch_norm(layer: NetLayer, walk: Walk) -> None:
    """Without scale and shift, which a layer Scale behind it may train."""
    told, blob = layer.message.message("batch_norm_param"), layer.only(is_map=True)
    if any(each != _FIXED for each in multipliers(layer, walk, 3)[: _params(layer)]):
        raise layer.refused(
            "param: expected lr_mult: 0 and decay_mult: 0, as its arrays are statistics",
            layer.message.line_of("param"),
        )
    frozen = told.flag("use_global_stats", False)
    kept = told.number("moving_average_fraction", 0.999)
    if not frozen:
        walk.note(
            told,
            told.line_of("moving_average_fraction") or told.line,
            f"running statistics follow with {1 - kept:.6g} of each batch, as Caffe's, but start "
            "as mean 0 and variance 1: Caffe's have no start",
        )
    ours = BatchNormalisation(
        layer.name,
        told.number("eps", 1e-5),
        1 - kept,
        scale_multipliers=_FIXED,
        shift_multipliers=_FIXED,
        frozen=frozen,
    )
    walk.add(layer, ours, (blob,))


def _params(layer: NetLayer) -> int:
    return len(layer.message.messages("param"))


def scale_of_norm(layer: NetLayer, walk: Walk, before: BatchNormalisation) -> None:
    """Scale and shift of the batch normalisation that is a layer's input."""
    told = layer.message.message("scale_param")
    has_bias = told.flag("bias_term", False)
    shift = constant(told.message("bias_filler"))
    factors = multipliers(layer, walk, 1 + has_bias)
    ours = replace(
        before,
        initial_scale=constant(told.message("filler"), 1.0),
        scale_multipliers=factors[0],
        shift_multipliers=factors[1] if has_bias else _FIXED,
    )
    if shift != 0:
        raise layer.refused(f"bias_filler: {shift}: expected 0", told.line_of("bias_filler"))
    walk.scale(layer, before, ours)
