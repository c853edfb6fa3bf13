"""Caffe's full network, number for number."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from knltrain.backends.cpu import CpuBackend
from knltrain.data.dataset import Batch
from knltrain.interchange.weights import load_weights
from knltrain.network.layers import WithinChannelNormalisation
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.cifar_full import cifar_full

from ...interchange.caffe.caffe_files import REAL, real

NETWORK = cifar_full()


def test_parameters_are_those_of_cifar10_full() -> None:
    """89,578: 2,432 + 25,632 + 51,264 + 10,250, from Caffe's prototxt."""
    sizes = dict.fromkeys(("conv1", "conv2", "conv3", "ip1"), 0)
    for spec in NETWORK.parameters:
        sizes[spec.layer] += spec.size
    assert list(sizes.values()) == [2_432, 25_632, 51_264, 10_250]
    assert NETWORK.parameter_count == 89_578


def test_one_image_costs_12_million_multiply_adds() -> None:
    """2,457,600 + 6,553,600 + 3,276,800 + 10,240, by hand."""
    assert NETWORK.flops_per_image == 2 * 12_298_240


def test_responses_are_normalised_behind_the_first_two_blocks() -> None:
    norms = [each for each in NETWORK.layers if isinstance(each, WithinChannelNormalisation)]
    assert [(each.size, each.alpha, each.beta) for each in norms] == [(3, 5e-5, 0.75)] * 2
    assert [NETWORK.shape_of(each.name) for each in norms] == [(16, 16, 32), (8, 8, 32)]


def test_fillers_and_multipliers_are_caffe_s() -> None:
    weights = [spec for spec in NETWORK.parameters if spec.role == "weights"]
    biases = [spec for spec in NETWORK.parameters if spec.role == "bias"]
    assert [spec.initial.size for spec in weights] == [0.0001, 0.01, 0.01, 0.01]
    assert [spec.decay_multiplier for spec in weights] == [1, 1, 1, 250]
    assert [spec.learning_rate_multiplier for spec in biases] == [2, 2, 1, 2]
    assert [spec.decay_multiplier for spec in biases] == [1, 1, 1, 0]


def test_weights_that_caffe_has_trained_fit() -> None:
    parameters = ParameterVector(NETWORK)
    load_weights(parameters, real("cifar10_full_iter_70000.caffemodel"))
    assert all(np.abs(view).max() > 0 for view in parameters.views.values())


def _shard(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (N,32,32,3) and classes of a tar of CIFAR-10 as JPEGs."""
    path = REAL.parent / "cifar10-jpeg" / name
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with tarfile.open(path) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar if each.isfile()}
    keys = [name.removesuffix(".jpg") for name in sorted(files) if name.endswith(".jpg")]
    pictures = [np.asarray(Image.open(io.BytesIO(files[f"{key}.jpg"]))) for key in keys]
    return np.stack(pictures), np.array([int(files[f"{key}.cls"]) for key in keys])


@pytest.mark.slow
def test_network_that_caffe_has_trained_is_as_right_as_there() -> None:
    """7,885 of the test half with the mean picture of all training shards; here of one."""
    parameters = ParameterVector(NETWORK)
    load_weights(parameters, real("cifar10_full_iter_70000.caffemodel"))
    mean = _shard("train-000000.tar")[0].mean(axis=0, dtype=np.float64).astype(np.float32)
    pictures, labels = _shard("test-000000.tar")
    backend, right = CpuBackend(NETWORK, 500, 1, "numba", winograd=False), 0
    for begin in range(0, 10_000, 500):
        part = slice(begin, begin + 500)
        images = pictures[part].astype(np.float32) - mean
        right += backend.evaluate(Batch(images, labels[part]), parameters.packed)[1]
    backend.close()
    assert abs(right - 7_885) <= 15


def test_number_of_classes_is_that_of_the_last_layer() -> None:
    assert cifar_full(classes=100).output_shape == (100,)
