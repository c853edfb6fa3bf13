"""The ends of Caffe's nets: losses, which become outputs, and what is measured of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from knltrain.interchange.caffe.net_layer import NetLayer, NetOutput
from knltrain.interchange.caffe.walk import Walk

_NORMALISATIONS: Final = {"VALID": "VALID", "FULL": "VALID", "BATCH_SIZE": "images", "NONE": "NONE"}


def softmax_loss(layer: NetLayer, walk: Walk) -> None:
    """Softmax and cross-entropy: its first input becomes an output of the network."""
    _normalised(layer)  # Either is the mean over the images where each has a label.
    _softmax_axis(layer)
    _loss(layer, walk, "softmax_cross_entropy", 1.0)


def sigmoid_loss(layer: NetLayer, walk: Walk) -> None:
    """Cross-entropy of each class by itself; Caffe sums over the classes, and ours is their mean.

    Where it is normalised by all values (VALID, FULL), Caffe's is that mean, too.
    """
    by_image = _normalised(layer) == "images"
    layer.message.message("sigmoid_param")  # Its engine alone.
    _loss(layer, walk, "sigmoid_cross_entropy", float(_classes(layer)) if by_image else 1.0)


def euclidean_loss(layer: NetLayer, walk: Walk) -> None:
    """Half the squared distance; ours is the mean over the outputs of the squares."""
    layer.message.message("loss_param")
    _loss(layer, walk, "mean_squared_error", _classes(layer) / 2)


def _classes(layer: NetLayer) -> int:
    return math.prod(layer.inputs[0].shape) if layer.inputs else 1


def _normalised(layer: NetLayer) -> str:
    """What the sum of a loss is divided by: "VALID" labels, or "images" as by default."""
    told = layer.message.message("loss_param")
    by_labels = told.flag("normalize", False)
    found = told.choice("normalization", "VALID" if by_labels else "images", _NORMALISATIONS)
    if found == "NONE":
        raise layer.refused(
            "normalization: NONE sums over the images: expected VALID, the mean, with a "
            "learning rate that many times as large",
            told.line_of("normalization"),
        )
    if told.line_of("ignore_label") is not None:
        raise layer.refused(
            "ignore_label is not there: leave out images without a label",
            told.line_of("ignore_label"),
        )
    return found


def _loss(layer: NetLayer, walk: Walk, kind: str, factor: float) -> None:
    """The first input becomes an output of the network; our loss times `factor` is Caffe's."""
    message = layer.message
    if len(layer.inputs) != 2 or layer.inputs[1].kind != "labels":
        raise layer.refused("expected two bottoms: logits, and labels of the data")
    logits = layer.inputs[0]
    layer.check_values(logits)
    weights = message.numbers("loss_weight")
    weight = weights[0] if weights else 1.0
    if weight == 0:
        walk.note(message, message.line_of("loss_weight") or message.line, "a loss of weight 0")
        return
    if len(logits.shape) != 1:
        raise layer.refused(
            f"logits are a map of {logits.shape}: expected a vector; pool it with "
            "global_pooling: true"
        )
    if not 0 < weight < math.inf:
        raise layer.refused(
            f"loss_weight: {weight}: expected a number above 0", message.line_of("loss_weight")
        )
    others = {each.kind for each in walk.outputs} - {kind}
    if others:
        raise layer.refused(
            f"{layer.kind} beside losses of another type: expected one type, loss.kind is that of "
            "all outputs"
        )
    walk.outputs.append(NetOutput(logits.source, weight * factor, message.line, kind))
    for top in range(len(layer.tops)):
        walk.put_labels(layer, top)


def _softmax_axis(layer: NetLayer) -> None:
    told = layer.message.message("softmax_param")
    if told.whole("axis", 1) != 1:
        raise layer.refused("softmax_param.axis: expected 1, the classes")


def softmax(layer: NetLayer, walk: Walk) -> None:
    """Nothing: its top holds the logits."""
    blob = layer.only()
    _softmax_axis(layer)
    walk.note(
        layer.message,
        layer.message.line,
        "Softmax dropped: it is part of the loss, and keeps the order",
    )
    walk.put(layer, replace(blob, kind="probabilities"))


def accuracy(layer: NetLayer, walk: Walk) -> None:
    """Nothing: evaluations measure it."""
    told = layer.message.message("accuracy_param")
    top_k = told.whole("top_k", 1)
    told.whole("axis", 1)
    if told.line_of("ignore_label") is not None:
        raise layer.refused("ignore_label is not there", told.line_of("ignore_label"))
    if top_k != 1:
        line = told.line_of("top_k") or told.line
        walk.note(layer.message, line, f"top_k: {top_k} dropped: accuracy is that of one answer")
    for top in range(len(layer.tops)):
        walk.put_labels(layer, top)
