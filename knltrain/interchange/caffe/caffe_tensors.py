"""The arrays of a .caffemodel by the names of our parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.caffemodel import CaffeLayer
from knltrain.vectors import FloatArray

_STATISTICS: Final = 3
"""Arrays of a BatchNorm: sums of means and of variances, and the sum of their weights."""


def tensors_of(layers: Iterable[CaffeLayer], file: str) -> dict[str, FloatArray]:
    """Weights and biases; statistics of a BatchNorm, with scale and shift of the Scale behind it.

    A BatchNorm without a Scale has scale 1 and shift 0. A Scale elsewhere is factors alone; with a
    bias, and so a Bias, it is a convolution. Raises NetworkError for a BatchNorm with other arrays;
    `file` names the file.
    """
    found: dict[str, FloatArray] = {}
    normalised: dict[str, str] = {}
    for layer in layers:
        if layer.kind == "BatchNorm":
            found |= _statistics(layer, file)
            normalised |= dict.fromkeys(layer.tops, layer.name)
        elif layer.kind in ("Scale", "Bias"):
            before = next((normalised.pop(each, None) for each in layer.bottoms), None)
            if before is not None and layer.kind == "Scale":
                found |= _named(before, ("scale", "shift"), layer.blobs)
            elif layer.kind == "Scale" and len(layer.blobs) == 1:
                found |= _named(layer.name, ("scale",), layer.blobs)
            else:
                found |= _by_channel(layer)
        elif layer.kind == "PReLU":
            slopes = tuple(blob.reshape(-1) for blob in layer.blobs)  # a shared one has no shape
            found |= _named(layer.name, ("slopes",), slopes)
        else:
            found |= _named(layer.name, ("weights", "bias"), layer.blobs)
    return found


def _statistics(layer: CaffeLayer, file: str) -> dict[str, FloatArray]:
    """Running mean and variance; Caffe keeps sums, of which `blobs[2]` is the divisor."""
    counts = {blob.size for blob in layer.blobs[:2]}
    weights = layer.blobs[2].ravel() if len(layer.blobs) >= _STATISTICS else np.empty(0)
    if len(counts) != 1 or weights.size != 1:
        raise NetworkError(
            f"{file}: BatchNorm '{layer.name}' has arrays of shapes "
            f"{[blob.shape for blob in layer.blobs]}: expected mean, variance and one number"
        )
    factor = np.float32(1 / weights[0] if weights[0] else 0)
    mean, variance = (blob.ravel() * factor for blob in layer.blobs[:2])
    # Intel's has scale and shift itself, and no Scale behind it.
    own = layer.blobs[_STATISTICS:] or (np.ones_like(mean), np.zeros_like(mean))
    return {
        f"{layer.name}.running_mean": mean,
        f"{layer.name}.running_variance": variance,
        **_named(layer.name, ("scale", "shift"), own),
    }


def _by_channel(layer: CaffeLayer) -> dict[str, FloatArray]:
    """Weights and bias of a 1x1 convolution with a group for each channel."""
    blobs = layer.blobs
    if layer.kind == "Bias":
        blobs = (np.ones_like(blobs[0]), *blobs)
    factors, *others = (blob.ravel() for blob in blobs)
    return _named(layer.name, ("weights", "bias"), (factors.reshape(-1, 1, 1, 1), *others))


def _named(
    layer: str, roles: tuple[str, ...], blobs: tuple[FloatArray, ...]
) -> dict[str, FloatArray]:
    return {f"{layer}.{role}": blob for role, blob in zip(roles, blobs, strict=False)}
