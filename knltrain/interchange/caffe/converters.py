"""Each type of Caffe's layers: what it is here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from knltrain.interchange.caffe.fillers import constant, multipliers
from knltrain.interchange.caffe.losses import accuracy, softmax, softmax_loss
from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.refused import REFUSED
from knltrain.interchange.caffe.walk import Converter, Walk
from knltrain.interchange.caffe.windows import convolution, inner_product, pooling
from knltrain.network.layers import (
    Activation,
    Addition,
    BatchNormalisation,
    Concatenation,
    Dropout,
    LocalResponseNormalisation,
    Multipliers,
    ReLU,
)

_FIXED: Final = Multipliers(0.0, 0.0)
_ELTWISE: Final = {"SUM": "SUM", "PROD": "PROD", "MAX": "MAX"}
_REGIONS: Final = {"ACROSS_CHANNELS": "ACROSS_CHANNELS", "WITHIN_CHANNEL": "WITHIN_CHANNEL"}


def _relu(layer: NetLayer, walk: Walk) -> None:
    slope = layer.message.message("relu_param").number("negative_slope", 0.0)
    walk.add(layer, ReLU(layer.name, slope), (layer.only(),))


def _activation(function: str, settings: str) -> Converter:
    def convert(layer: NetLayer, walk: Walk) -> None:
        layer.message.message(settings)  # Its engine alone.
        walk.add(layer, Activation(layer.name, function), (layer.only(),))

    return convert


def _dropout(layer: NetLayer, walk: Walk) -> None:
    rate = layer.message.message("dropout_param").number("dropout_ratio", 0.5)
    walk.add(layer, Dropout(layer.name, rate), (layer.only(),))


def _lrn(layer: NetLayer, walk: Walk) -> None:
    told = layer.message.message("lrn_param")
    if told.choice("norm_region", "ACROSS_CHANNELS", _REGIONS) != "ACROSS_CHANNELS":
        raise layer.refused(
            "norm_region: WITHIN_CHANNEL is not there: expected ACROSS_CHANNELS",
            told.line_of("norm_region"),
        )
    ours = LocalResponseNormalisation(
        layer.name,
        told.whole("local_size", 5),
        told.number("alpha", 1.0),
        told.number("beta", 0.75),
        told.number("k", 1.0),
    )
    walk.add(layer, ours, (layer.only(is_map=True),))


def _batch_norm(layer: NetLayer, walk: Walk) -> None:
    """Without scale and shift, which a layer Scale behind it may train."""
    told, blob = layer.message.message("batch_norm_param"), layer.only(is_map=True)
    if any(each != _FIXED for each in multipliers(layer, walk, 3)[: _params(layer)]):
        raise layer.refused(
            "param: expected lr_mult: 0 and decay_mult: 0, as its arrays are statistics",
            layer.message.line_of("param"),
        )
    if told.flag("use_global_stats", False):
        walk.note(
            told,
            told.line_of("use_global_stats") or told.line,
            "use_global_stats: true dropped: in training the statistics are those of the batch",
        )
    kept = told.number("moving_average_fraction", 0.999)
    walk.note(
        told,
        told.line_of("moving_average_fraction") or told.line,
        f"running statistics follow with {1 - kept:.6g} of each batch, as Caffe's, but start as "
        "mean 0 and variance 1: Caffe's have no start",
    )
    ours = BatchNormalisation(
        layer.name,
        told.number("eps", 1e-5),
        1 - kept,
        scale_multipliers=_FIXED,
        shift_multipliers=_FIXED,
    )
    walk.add(layer, ours, (blob,))


def _params(layer: NetLayer) -> int:
    return len(layer.message.messages("param"))


def _scale(layer: NetLayer, walk: Walk) -> None:
    """Scale and shift of the batch normalisation that is its input."""
    told, blob = layer.message.message("scale_param"), layer.only(is_map=True)
    before = next((each for each in walk.layers if each.name == blob.source), None)
    if (
        not isinstance(before, BatchNormalisation)
        or before.scale_multipliers != _FIXED
        or told.whole("axis", 1) != 1
        or told.whole("num_axes", 1) != 1
    ):
        raise layer.refused(
            "Scale alone is not there: expected it behind a BatchNorm, channel by channel"
        )
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


def _concat(layer: NetLayer, walk: Walk) -> None:
    told = layer.message.message("concat_param")
    axis = told.whole("axis", told.whole("concat_dim", 1))
    if axis != 1 or any(blob.flat or len(blob.shape) != 3 for blob in layer.inputs):
        raise layer.refused("Concat: expected axis 1, the channels of feature maps")
    _check_merged(layer)
    walk.add(layer, Concatenation(layer.name), layer.inputs)


def _eltwise(layer: NetLayer, walk: Walk) -> None:
    """A sum; one of n as n - 1 sums of two."""
    told = layer.message.message("eltwise_param")
    kind = told.choice("operation", "SUM", _ELTWISE)
    if kind != "SUM":
        raise layer.refused(
            f"operation: {kind} is not there: expected SUM", told.line_of("operation")
        )
    if any(value != 1 for value in told.numbers("coeff")):
        raise layer.refused("a sum with factors: expected coeff of 1", told.line_of("coeff"))
    told.flag("stable_prod_grad", True)
    _check_merged(layer)
    total, *others = layer.inputs
    for place, blob in enumerate(others[:-1], 1):
        total = walk.add_hidden(layer, Addition(f"{layer.name}/{place}"), (total, blob))
    walk.add(layer, Addition(layer.name), (total, others[-1]))


def _check_merged(layer: NetLayer) -> None:
    sources = [blob.source for blob in layer.inputs]
    if len(sources) < 2 or len(set(sources)) < len(sources) or len(layer.tops) != 1:
        raise layer.refused(
            f"{layer.kind} of {list(layer.bottoms)}: expected two or more different blobs, and one "
            "top"
        )
    for blob in layer.inputs:
        layer.check_values(blob)


def _identity(layer: NetLayer, walk: Walk) -> None:
    """Split: the same for every reader."""
    if len(layer.inputs) != 1:
        raise layer.refused(f"Split of {list(layer.bottoms)}: expected one bottom")
    for top in range(len(layer.tops)):
        walk.put(layer, layer.inputs[0], top)


def _flatten(layer: NetLayer, walk: Walk) -> None:
    told, blob = layer.message.message("flatten_param"), layer.only()
    if (told.whole("axis", 1), told.whole("end_axis", -1)) != (1, -1):
        raise layer.refused("flatten_param: expected axis 1 to -1, whole images")
    walk.put(layer, replace(blob, flat=True))


def _silence(layer: NetLayer, walk: Walk) -> None:
    walk.note(layer.message, layer.message.line, "Silence dropped: it does nothing")


CONVERTERS: Final[dict[str, Converter]] = {
    "Accuracy": accuracy,
    "BatchNorm": _batch_norm,
    "Concat": _concat,
    "Convolution": convolution,
    "Dropout": _dropout,
    "Eltwise": _eltwise,
    "Flatten": _flatten,
    "InnerProduct": inner_product,
    "LRN": _lrn,
    "Pooling": pooling,
    "ReLU": _relu,
    "Scale": _scale,
    "Sigmoid": _activation("sigmoid", "sigmoid_param"),
    "Silence": _silence,
    "Softmax": softmax,
    "SoftmaxWithLoss": softmax_loss,
    "Split": _identity,
    "TanH": _activation("tanh", "tanh_param"),
    **REFUSED,
}
"""Types of layers, data aside -> what becomes of them."""
