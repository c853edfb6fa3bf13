"""Networks with parameters that are all different, as files of Caffe."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from knltrain.interchange.caffe.exporting import caffe_files
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


def filled(network: Network, seed: int = 3) -> ParameterVector:
    """Parameters as after training: no scale is 1, no bias 0."""
    parameters, stream = ParameterVector(network), np.random.default_rng(seed)
    parameters.initialise(seed)
    for spec in network.parameters:
        if spec.role in ("scale", "running_variance"):
            parameters.views[spec.name][...] = stream.uniform(0.5, 1.5, spec.shape)
        elif spec.role != "weights":
            parameters.views[spec.name][...] = 0.1 * stream.normal(size=spec.shape)
    return parameters


def written(
    network: Network, parameters: ParameterVector, folder: Path, for_opencv: bool = False
) -> tuple[Path, Path]:
    """The files of an export: .prototxt and .caffemodel."""
    found = caffe_files(network, parameters, for_opencv)
    text, model = folder / "a.prototxt", folder / "a.caffemodel"
    text.write_text(found.prototxt)
    model.write_bytes(b"".join(found.caffemodel))
    return text, model


def images_of(network: Network, count: int = 2) -> np.ndarray:
    """Images (N,C,H,W)."""
    height, width, channels = network.input_shape
    shape = (count, channels, height, width)
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)
