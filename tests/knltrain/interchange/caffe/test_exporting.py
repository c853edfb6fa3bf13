from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from knltrain.errors import NetworkError
from knltrain.interchange.caffe import exporting
from knltrain.interchange.caffe.exporting import caffe_files
from knltrain.interchange.caffe.importing import import_caffe
from knltrain.interchange.to_torch import to_torch
from knltrain.interchange.weights import load_weights
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Activation,
    Addition,
    Affine,
    AveragePooling,
    BatchNormalisation,
    ChannelProduct,
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePooling,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    PReLU,
    ReLU,
    StochasticDepth,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named

from .exported import filled, images_of, written

EVERYTHING = Network(
    "every thing",
    (13, 9, 4),
    (
        Convolution("data", 8, (3, 1), stride=(2, 1), padding=(1, 0), bias=False),
        BatchNormalisation("a/norm", epsilon=1e-3, momentum=0.3),
        ReLU("a.relu", slope=0.1),
        LocalResponseNormalisation("lrn", size=3, alpha=0.5),
        Convolution("left", 8, 3, padding=2, dilation=2, groups=2, inputs=("lrn",)),
        StochasticDepth("left/drop", 0.2),
        Addition("sum", ("left/drop", "lrn")),
        GlobalAveragePooling("squeeze"),
        Dense("excite", 8),
        Activation("gate", "sigmoid"),
        ChannelProduct("product", ("sum", "gate")),
        Affine("affine", 0.5, 0.25),
        MaxPooling("right", 3, 2, 1, ceil=True),
        AveragePooling("small", 3, 2, 1, ceil=True, inputs=("product",)),
        Concatenation("joined", ("small", "right")),
        Activation("tanh", "tanh"),
        MaxPooling("even", 2, 2, ceil=True),
        Dropout("drop", 0.5),
        Dense("prob", 5),
        Dense("aside", 5, inputs=("lrn",)),
    ),
    (Output("prob"), Output("aside", 0.3)),
)
"""With names that an export would give, and a head that is not evaluated."""


CHANNELS = Network(
    "channels",
    (8, 8, 3),
    (
        Convolution("conv", 6, 3),
        BatchNormalisation("norm"),
        ChannelScale("scaled"),
        PReLU("each", initial_slope=0.1),
        WithinChannelNormalisation("within", 3, 0.5),
        ChannelSlice("a", 0, 2),
        ChannelSlice("b", 1, 5, ("within",)),
        ChannelSlice("all", 0, 6, ("within",)),
        PReLU("shared", shared=True),
        Concatenation("joined", ("a", "b", "shared")),
        ChannelShuffle("shuffled", 3),
        Flatten("flat"),
        PReLU("units"),
        ChannelScale("factors"),
        ChannelSlice("half", 100, 200),
        Dense("fc", 7, inputs=("half",)),
        Concatenation("both", ("half", "fc")),
        ChannelSlice("last", 90, 107),
        Dense("out", 4),
    ),
)
"""Layers that tell channels apart, of maps and of vectors."""


def _logits(network: Network, parameters: ParameterVector, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = to_torch(network, parameters).eval()(torch.from_numpy(images)).numpy()
    return found


def _small(*layers: Layer) -> Network:
    return Network("small", (10, 10, 3), (*layers, GlobalAveragePooling("mean"), Dense("fc", 4)))


def test_own_import_reads_the_same_network_and_every_bit(tmp_path: Path) -> None:
    parameters = filled(EVERYTHING)
    text, model = written(EVERYTHING, parameters, tmp_path)
    network = import_caffe(text, "a.json").network
    assert network.name == "every thing"
    back = ParameterVector(network)
    assert load_weights(back, model) == ()
    kept = {name: values for name, values in parameters.views.items() if "aside" not in name}
    assert list(back.views) == list(kept)
    for name, values in kept.items():
        assert back.views[name].tobytes() == values.tobytes(), name
    images = images_of(network)
    assert np.array_equal(_logits(network, back, images), _logits(EVERYTHING, parameters, images))


def test_own_import_computes_the_same_of_layers_of_channels(tmp_path: Path) -> None:
    parameters = filled(CHANNELS)
    text, model = written(CHANNELS, parameters, tmp_path)
    network = import_caffe(text, "a.json").network
    kept = {"ChannelSlice": 5, "ChannelShuffle": 1, "ChannelScale": 2, "PReLU": 3}
    kinds = [type(each).__name__ for each in network.layers]
    assert {kind: kinds.count(kind) for kind in kept} == kept
    back = ParameterVector(network)
    assert load_weights(back, model) == ()
    for name, values in parameters.views.items():
        assert back.views[name].tobytes() == values.tobytes(), name
    images = images_of(network)
    assert np.array_equal(_logits(network, back, images), _logits(CHANNELS, parameters, images))


@pytest.mark.parametrize("momentum", [0.1, 0.001, 0.3, 1.0])
def test_statistics_keep_every_bit_with_any_momentum(momentum: float, tmp_path: Path) -> None:
    network = _small(Convolution("c", 5, 3), BatchNormalisation("n", momentum=momentum))
    parameters = filled(network)
    _, model = written(network, parameters, tmp_path)
    back = ParameterVector(network)
    load_weights(back, model)
    assert back.packed.tobytes() == parameters.packed.tobytes()


def test_frozen_normalisation_stays_frozen(tmp_path: Path) -> None:
    network = _small(Convolution("c", 5, 3), BatchNormalisation("n", frozen=True))
    text, _ = written(network, filled(network), tmp_path)
    found = import_caffe(text, "a.json").network.layers[1]
    assert isinstance(found, BatchNormalisation)
    assert found.frozen


NETWORKS = [
    *("cifar-quick", "squeezenet-1.1", "resnet-18"),
    *("mobilenet-v2", "regnet-y-400mf", "densenet-121", "shufflenet-v2-0.5"),
]


@pytest.mark.parametrize(
    "name", ["lenet", *(pytest.param(each, marks=pytest.mark.slow) for each in NETWORKS)]
)
def test_opencv_computes_the_same(name: str, tmp_path: Path) -> None:
    _check_opencv(network_named(name), tmp_path, for_opencv=True)


@pytest.mark.parametrize("for_opencv", [False, True])
def test_opencv_reads_every_layer(for_opencv: bool, tmp_path: Path) -> None:
    _check_opencv(EVERYTHING, tmp_path, for_opencv)
    _check_opencv(CHANNELS, tmp_path, for_opencv)


def _check_opencv(network: Network, folder: Path, for_opencv: bool) -> None:
    cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    parameters = filled(network)
    text, model = written(network, parameters, folder, for_opencv)
    other = cv2.dnn.readNetFromCaffe(str(text), str(model))
    images = images_of(network)
    other.setInput(images)
    found = other.forward(network.outputs[0].layer)
    expected = _logits(network, parameters, images)
    difference = np.abs(found.reshape(expected.shape) - expected).max()
    assert difference <= 1e-4 * np.abs(expected).max()


def test_all_layers_that_caffe_has_not_are_named() -> None:
    network = _small(
        Convolution("c", 3, 3),
        Activation("gelu", "gelu"),
        ReLU("bent", slope=0.1, ceiling=6.0),
        GlobalAveragePooling("means"),
        ChannelProduct("product", ("bent", "means")),
    )
    with pytest.raises(NetworkError) as caught:
        caffe_files(network, filled(network))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("layer 'gelu': in Caffe gelu is not there: expected layers that")
    assert "no rectifier has a slope (0.1) and a ceiling" in lines[1]
    assert "layer 'product': in Caffe factors that are means of maps have four axes" in lines[2]
    assert len(lines) == 3


def test_forms_that_some_caffes_refuse_are_told() -> None:
    network = _small(
        MaxPooling("floor", 3, 2, 1),
        ReLU("capped", ceiling=6.0),
        AveragePooling("mean3", 3, 1, 1, counts_padding=False),
    )
    found = caffe_files(network, filled(network))
    assert [note.partition(":")[0] for note in found.notes] == [
        "layer 'floor'",
        "layer 'capped'",
        "layer 'mean3'",
    ]
    assert "round_mode: FLOOR" in found.prototxt


def test_opencv_has_fields_of_its_own() -> None:
    network = _small(MaxPooling("floor", 3, 2, 1), ReLU("capped", ceiling=6.0))
    found = caffe_files(network, filled(network), for_opencv=True)
    assert "ceil_mode: false" in found.prototxt
    assert 'type: "ReLU6"' in found.prototxt
    assert found.notes == ()
    network = dataclasses.replace(
        network,
        layers=(*network.layers[:1], ReLU("capped", ceiling=5.0), *network.layers[2:]),
        outputs=(),
    )
    with pytest.raises(NetworkError, match=r"OpenCV does not read Clip with min: 0\.0, max: 5"):
        caffe_files(network, filled(network), for_opencv=True)


def test_file_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_LARGEST_FILE", 100)
    network = _small()
    with pytest.raises(NetworkError, match=r"'small' takes [\d,]+ bytes as a .caffemodel"):
        caffe_files(network, filled(network))
