from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.caffemodel import read_blob, read_caffemodel
from knltrain.interchange.to_torch import to_torch
from knltrain.interchange.weights import load_weights
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet

from .caffe_files import REAL, blob, field, layer, real, v0_layer, v1_layer, varint

MNIST = REAL.parent / "mnist"


def _read(tmp_path: Path, content: bytes) -> list[tuple[str, list[tuple[int, ...]]]]:
    path = tmp_path / "a.caffemodel"
    path.write_bytes(content)
    return [(each.name, [found.shape for found in each.blobs]) for each in read_caffemodel(path)]


@pytest.mark.parametrize("form", [layer, v1_layer, v0_layer])
def test_layers_of_all_forms_are_read(form, tmp_path: Path) -> None:
    weights, bias = blob((2, 1, 1, 3), range(6)), blob((1, 1, 1, 2), (1.5, -1), legacy=True)
    content = field(1, b"net") + form("data") + form("conv1", weights, bias)
    assert _read(tmp_path, content) == [("conv1", [(2, 1, 1, 3), (1, 1, 1, 2)])]


def test_values_may_be_single_or_double() -> None:
    single = b"".join(varint(5 << 3 | 5) + struct.pack("<f", value) for value in (1.0, 2.5))
    double = field(8, struct.pack("<2d", 1.0, 2.5))
    for content in (single, double):
        found = read_blob(memoryview(field(7, field(1, 2)) + content), "blob")
        np.testing.assert_array_equal(found, np.float32([1, 2.5]))
        assert found.dtype == np.float32


def test_real_lenet_has_its_arrays() -> None:
    found = {each.name: each.blobs for each in read_caffemodel(real("lenet_iter_10000.caffemodel"))}
    assert {name: [blob.shape for blob in blobs] for name, blobs in found.items()} == {
        "conv1": [(20, 1, 5, 5), (20,)],
        "conv2": [(50, 20, 5, 5), (50,)],
        "ip1": [(500, 800), (500,)],
        "ip2": [(10, 500), (10,)],
    }


def test_real_mean_of_imagenet_is_read() -> None:
    content = real("imagenet_256x256_mean.binaryproto").read_bytes()
    mean = read_blob(memoryview(content), "mean")
    assert mean.shape == (1, 3, 256, 256)
    np.testing.assert_allclose(mean.mean((0, 2, 3)), (104, 117, 123), atol=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no layer with weights: expected a .caffemodel of Caffe"),
        (b"\x89PNG and more", "expected a file as Caffe writes it"),
        (layer("a", blob((2, 2), range(3))), "'a', array 0: an array of shape .2, 2. has 3 values"),
        (layer("a", blob((2**40, 2**40), range(3))), "has 3 values: expected 1208925819614629174"),
        (layer("a", field(5, b"12345")), "'a', array 0: 5 bytes of values, expected a multiple"),
        (layer("a", field(5, 3)), "values of type 0: the file is damaged"),
        (layer("a", field(7, 3)), "field 7 is no message"),
        (layer("a", blob((1,), [1])) + v1_layer("b", blob((1,), [1])), "layers of both forms"),
    ],
)
def test_what_is_no_caffemodel_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=message):
        _read(tmp_path, content)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"none.caffemodel cannot be read \(No such file"):
        read_caffemodel(tmp_path / "none.caffemodel")


@pytest.mark.parametrize("name", ["", "a/../b", "nul\0", "ü" * 2048])
def test_any_name_is_a_name(name: str, tmp_path: Path) -> None:
    assert _read(tmp_path, layer(name, blob((1,), [1]))) == [(name, [(1,)])]


def test_real_file_that_is_cut_off_anywhere_is_refused_or_lacks_layers(tmp_path: Path) -> None:
    whole = real("lenet_iter_10000.caffemodel").read_bytes()
    path = tmp_path / "cut.caffemodel"
    refused = 0
    for size in range(0, len(whole), 10_000):
        path.write_bytes(whole[:size])
        try:
            layers = read_caffemodel(path)
        except NetworkError:
            refused += 1
        else:
            assert len(layers) < 4
    assert refused > 150


def _mnist_test() -> tuple[torch.Tensor, np.ndarray]:
    """MNIST's 10,000 test images (N,1,28,28) as Caffe's LeNet takes them, and their labels."""
    if not MNIST.is_dir():
        pytest.skip(f"there is no {MNIST}")
    pixels = gzip.decompress((MNIST / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((MNIST / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    images = np.frombuffer(pixels, np.uint8).reshape(-1, 1, 28, 28).astype(np.float32)
    return torch.from_numpy(images * np.float32(0.00390625)), np.frombuffer(labels, np.uint8)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("lenet_iter_10000.ethereon", 9_914),
        pytest.param("lenet_iter_10000", 9_833, marks=pytest.mark.slow),
        pytest.param("lenet_iter_5000", 9_899, marks=pytest.mark.slow),
    ],
)
def test_lenets_of_real_caffe_are_as_right_as_there(name: str, right: int) -> None:
    parameters = ParameterVector(lenet())
    load_weights(parameters, real(f"{name}.caffemodel"))
    images, labels = _mnist_test()
    with torch.no_grad():
        found = to_torch(lenet(), parameters).eval()(images).argmax(1).numpy()
    assert int((found == labels).sum()) == right
