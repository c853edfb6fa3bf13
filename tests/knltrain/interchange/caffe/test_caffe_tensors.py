from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.caffe_tensors import tensors_of
from knltrain.interchange.caffe.caffemodel import CaffeLayer, read_caffemodel
from knltrain.interchange.weights import load_weights
from knltrain.network.parameters import ParameterVector

from .caffe_files import blob, field
from .prototxts import DATA, layer, net


def _layer(kind: str, name: str, bottom: str, top: str, *values: tuple[float, ...]) -> bytes:
    texts = ((1, name), (2, kind), (3, bottom), (4, top))
    content = b"".join(field(number, text.encode()) for number, text in texts)
    return field(100, content + b"".join(field(7, blob((len(each),), each)) for each in values))


def _read(tmp_path: Path, *content: bytes) -> dict[str, list[float]]:
    path = tmp_path / "a.caffemodel"
    path.write_bytes(b"".join(content))
    return {name: found.tolist() for name, found in tensors_of(read_caffemodel(path), "a").items()}


def test_statistics_are_divided_by_their_weight(tmp_path: Path) -> None:
    assert _read(tmp_path, _layer("BatchNorm", "bn", "x", "y", (2, 4), (6, 8), (2,))) == {
        "bn.running_mean": [1, 2],
        "bn.running_variance": [3, 4],
        "bn.scale": [1, 1],
        "bn.shift": [0, 0],
    }


def test_statistics_without_weight_are_0(tmp_path: Path) -> None:
    found = _read(tmp_path, _layer("BatchNorm", "bn", "x", "y", (2, 4), (6, 8), (0,)))
    assert (found["bn.running_mean"], found["bn.running_variance"]) == ([0, 0], [0, 0])


@pytest.mark.parametrize("top", ["x", "y"])
def test_scale_belongs_to_the_batch_normalisation_before_it(top: str, tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        _layer("BatchNorm", "bn", "x", top, (2,), (6,), (2,)),
        _layer("Scale", "sc", top, top, (5,), (7,)),
        _layer("InnerProduct", "ip", top, "z", (1, 2)),
    )
    assert (found["bn.scale"], found["bn.shift"], found["ip.weights"]) == ([5], [7], [1, 2])
    without_shift = _read(
        tmp_path,
        _layer("BatchNorm", "bn", "x", top, (2,), (6,), (2,)),
        _layer("Scale", "sc", top, top, (5,)),
    )
    assert (without_shift["bn.scale"], without_shift["bn.shift"]) == ([5], [0])


def test_batch_normalisation_of_intel_has_scale_and_shift_itself(tmp_path: Path) -> None:
    found = _read(tmp_path, _layer("BatchNorm", "bn", "x", "y", (2,), (6,), (2,), (5,), (7,)))
    assert (found["bn.scale"], found["bn.shift"]) == ([5], [7])


def test_what_fits_no_batch_normalisation_is_named() -> None:
    one = np.ones(1, np.float32)
    with pytest.raises(NetworkError, match="a: BatchNorm 'bn' has arrays of shapes"):
        tensors_of([CaffeLayer("bn", (one, one), "BatchNorm")], "a")


def test_imported_net_takes_the_weights_of_its_model(tmp_path: Path) -> None:
    text = DATA + layer("BatchNorm", "", "data", "bn") + layer("Scale", "", "bn", "sc")
    network = net(text + layer("InnerProduct", "inner_product_param { num_output: 2 }", "sc", "ip"))
    path = tmp_path / "a.caffemodel"
    dense = field(1, b"ip") + field(2, b"InnerProduct") + field(3, b"sc") + field(4, b"ip")
    dense += field(7, blob((2, 192), range(384))) + field(7, blob((2,), (1, 2)))
    path.write_bytes(
        _layer("BatchNorm", "bn", "data", "bn", (2, 4, 6), (6, 8, 10), (2,))
        + _layer("Scale", "sc", "bn", "sc", (5, 6, 7))
        + field(100, dense)
    )
    parameters = ParameterVector(network.network)
    assert load_weights(parameters, path) == ()
    np.testing.assert_array_equal(parameters.views["bn.running_mean"], [1, 2, 3])
    np.testing.assert_array_equal(parameters.views["bn.scale"], [5, 6, 7])
    np.testing.assert_array_equal(parameters.views["ip.bias"], [1, 2])


def test_slopes_of_a_prelu_are_a_vector(tmp_path: Path) -> None:
    content = b"".join(field(number, text.encode()) for number, text in ((1, "p"), (2, "PReLU")))
    shared = field(100, content + field(7, field(7, b"") + blob((1,), (0.5,))[-6:]))
    assert _read(tmp_path, shared) == {"p.slopes": [0.5]}
    each = _layer("PReLU", "p", "x", "y", (0.25, -1))
    assert _read(tmp_path, each) == {"p.slopes": [0.25, -1]}
