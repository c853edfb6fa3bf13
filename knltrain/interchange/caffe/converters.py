"""Each type of Caffe's layers: what it is here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from knltrain.interchange.caffe.activations import activation, clip, prelu, relu, swish
from knltrain.interchange.caffe.channels import shuffle, slices
from knltrain.interchange.caffe.factors import axpy, bias, scale
from knltrain.interchange.caffe.losses import (
    accuracy,
    euclidean_loss,
    sigmoid_loss,
    softmax,
    softmax_loss,
)
from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.normalisation import batch_norm, lrn
from knltrain.interchange.caffe.refused import REFUSED
from knltrain.interchange.caffe.walk import Converter, Walk
from knltrain.interchange.caffe.windows import convolution, inner_product, pooling
from knltrain.network.layers import (
    Addition,
    Affine,
    Concatenation,
    Dropout,
)

_ELTWISE: Final = {"SUM": "SUM", "PROD": "PROD", "MAX": "MAX"}


def _dropout(layer: NetLayer, walk: Walk) -> None:
    rate = layer.message.message("dropout_param").number("dropout_ratio", 0.5)
    walk.add(layer, Dropout(layer.name, rate), (layer.only(),))


def _concat(layer: NetLayer, walk: Walk) -> None:
    told = layer.message.message("concat_param")
    axis = told.whole("axis", told.whole("concat_dim", 1))
    if axis != 1 or len({blob.source for blob in layer.inputs}) < len(layer.inputs):
        raise layer.refused(
            f"Concat of {list(layer.bottoms)} along axis {axis}: expected different blobs, and "
            "axis 1, the channels",
            told.line_of("axis"),
        )
    _check_merged(layer)
    blobs = [walk.unflattened(layer, blob) for blob in layer.inputs]
    walk.add(layer, Concatenation(layer.name), blobs)


def _eltwise(layer: NetLayer, walk: Walk) -> None:
    """A sum of blobs, each times a factor; one of n as n - 1 sums of two.

    A blob that is there twice has the sum of its factors.
    """
    told = layer.message.message("eltwise_param")
    kind = told.choice("operation", "SUM", _ELTWISE)
    if kind != "SUM":
        raise layer.refused(
            f"operation: {kind} is not there: expected SUM", told.line_of("operation")
        )
    factors = told.numbers("coeff") or [1.0] * len(layer.inputs)
    if len(factors) != len(layer.inputs):
        raise layer.refused(
            f"{len(factors)} coeff for {len(layer.inputs)} bottoms: expected one for each",
            told.line_of("coeff"),
        )
    told.flag("stable_prod_grad", True)
    _check_merged(layer)
    summed: dict[str, float] = {}
    for blob, factor in zip(layer.inputs, factors, strict=True):
        summed[blob.source] = summed.get(blob.source, 0.0) + factor
    blobs = {blob.source: blob for blob in layer.inputs}
    if len(blobs) == 1:
        walk.add(layer, Affine(layer.name, sum(summed.values())), layer.inputs[:1])
        return
    total, *others = (
        blob
        if factor == 1
        else walk.add_hidden(layer, Affine(f"{layer.name}/factor{place}", factor), (blob,))
        for place, (blob, factor) in enumerate(zip(blobs.values(), summed.values(), strict=True), 1)
    )
    for place, blob in enumerate(others[:-1], 1):
        total = walk.add_hidden(layer, Addition(f"{layer.name}/{place}"), (total, blob))
    walk.add(layer, Addition(layer.name), (total, others[-1]))


def _power(layer: NetLayer, walk: Walk) -> None:
    """(shift + scale x) to a power, which must be 1."""
    told = layer.message.message("power_param")
    power = told.number("power", 1.0)
    if power != 1:
        raise layer.refused(f"power: {power:g} is not there: expected 1", told.line_of("power"))
    affine = Affine(layer.name, told.number("scale", 1.0), told.number("shift", 0.0))
    walk.add(layer, affine, (layer.only(),))


def _check_merged(layer: NetLayer) -> None:
    if len(layer.inputs) < 2 or len(layer.tops) != 1:
        raise layer.refused(
            f"{layer.kind} of {list(layer.bottoms)}: expected two or more blobs, and one top"
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
    "Axpy": axpy,
    "BatchNorm": batch_norm,
    "Bias": bias,
    "Clip": clip,
    "Concat": _concat,
    "Convolution": convolution,
    "Dropout": _dropout,
    "Eltwise": _eltwise,
    "EuclideanLoss": euclidean_loss,
    "Flatten": _flatten,
    "InnerProduct": inner_product,
    "LRN": lrn,
    "PReLU": prelu,
    "Pooling": pooling,
    "Power": _power,
    "ReLU": relu,
    "Scale": scale,
    "ShuffleChannel": shuffle,
    "Sigmoid": activation("sigmoid", "sigmoid_param"),
    "SigmoidCrossEntropyLoss": sigmoid_loss,
    "Silence": _silence,
    "Slice": slices,
    "Softmax": softmax,
    "SoftmaxWithLoss": softmax_loss,
    "Split": _identity,
    "Swish": swish,
    "TanH": activation("tanh", "tanh_param"),
    **REFUSED,
}
"""Types of layers, data aside -> what becomes of them."""
