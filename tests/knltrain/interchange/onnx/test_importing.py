from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.exporting import onnx_file
from knltrain.interchange.onnx.importing import from_onnx
from knltrain.interchange.to_torch import to_torch
from knltrain.network.layers import (
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    LayerNormalisation,
    LocalResponseNormalisation,
    Padding,
    ReLU,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named

from ...marks import by_cost
from ..caffe.exported import filled, images_of
from ..caffe.test_exporting import CHANNELS, EVERYTHING
from .onnx_files import array, behind, file_of, node, onnx

pytest.importorskip("onnxscript", reason="the extra onnx is not installed")


class Small(nn.Module):
    """As people write them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.squeeze, self.excite = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.depthwise = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.head = nn.Linear(16 * 4 * 4, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = nn.functional.silu(self.stem(images))
        gate = nn.functional.relu(self.squeeze(maps.mean((2, 3), keepdim=True)))
        maps = maps * torch.sigmoid(self.excite(gate)) + maps
        maps = nn.functional.relu6(self.depthwise(maps))
        maps = torch.cat([nn.functional.max_pool2d(maps, 2), nn.functional.avg_pool2d(maps, 2)], 1)
        return self.head(nn.functional.hardswish(maps).flatten(1))


def _logits(network: Network, parameters: ParameterVector, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = to_torch(network, parameters).eval()(torch.from_numpy(images)).numpy()
    return found


def _check_round_trip(network: Network, folder: Path) -> Network:
    parameters, path = filled(network), folder / "a.onnx"
    path.write_bytes(onnx_file(network, parameters))
    back = from_onnx(path)
    images = images_of(network)
    found = _logits(back.network, back.parameters, images)
    expected = _logits(network, parameters, images)
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
    return back.network


@pytest.mark.parametrize(
    "name",
    by_cost(
        ["lenet", "resnet-18", "mobilenet-v2", "mobilenet-v3-small", "shufflenet-v2-0.5"],
        *("lenet", "resnet-18", "mobilenet-v3-small"),
    ),
)
def test_networks_come_back_from_their_files(name: str, tmp_path: Path) -> None:
    network = network_named(name)
    back = _check_round_trip(network, tmp_path)
    assert back.name == name
    assert back.parameter_count == network.parameter_count
    weighted = [spec.name for spec in network.parameters]
    assert [spec.name for spec in back.parameters] == weighted


@pytest.mark.slow
def test_every_layer_comes_back(tmp_path: Path) -> None:
    layers = tuple(
        ReLU(each.name) if isinstance(each, LocalResponseNormalisation) else each
        for each in EVERYTHING.layers
    )  # PyTorch's exporter takes LRN apart.
    _check_round_trip(dataclasses.replace(EVERYTHING, layers=layers), tmp_path)


@pytest.mark.slow
def test_layers_of_channels_come_back(tmp_path: Path) -> None:
    layers = tuple(
        ReLU(each.name) if isinstance(each, WithinChannelNormalisation) else each
        for each in CHANNELS.layers
    )  # PyTorch's exporter takes LRN apart.
    network = dataclasses.replace(CHANNELS, layers=layers, outputs=())
    _check_round_trip(network, tmp_path)
    padded = Network(
        "padded",
        (8, 8, 3),
        (
            Padding("sides", 1, 0, 2, 1),
            Convolution("conv", 4, 3),
            LayerNormalisation("norm"),
            GlobalAveragePooling("mean"),
            LayerNormalisation("end"),
            Dense("out", 3),
        ),
    )
    assert _check_round_trip(padded, tmp_path).layers[0] == Padding(
        "pad", 1, 0, 2, 1, inputs=("images",)
    )


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_files_of_pytorchs_exporter_are_read(dynamic: bool, tmp_path: Path) -> None:
    module, images = Small().eval(), torch.randn(2, 3, 16, 16)
    path = tmp_path / "a.onnx"
    options: dict[str, Any] = {}
    if dynamic:
        options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (images,), str(path), dynamo=True, verbose=False, external_data=False, **options
        )
    found = from_onnx(path, "mine")
    assert found.network.name == "mine"
    with torch.no_grad():
        expected = module(images).numpy()
    values = _logits(found.network, found.parameters, images.numpy())
    assert np.abs(values - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.slow
def test_exported_file_takes_any_number_of_images_and_tells_no_paths(tmp_path: Path) -> None:
    network = network_named("resnet-18")
    parameters = filled(network)
    content = onnx_file(network, parameters)
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model)
    (images,) = model.graph.input
    assert (images.name, model.graph.output[0].name) == ("images", "logits")
    assert images.type.tensor_type.shape.dim[0].dim_param
    names = {each.name for each in model.graph.initializer}
    assert {"conv1.weight", "bn1.running_mean", "fc.bias"} <= names
    normalised = sum(isinstance(each, BatchNormalisation) for each in network.layers)
    kinds = [each.op_type for each in model.graph.node]
    assert kinds.count("BatchNormalization") == normalised
    assert str(Path(__file__).parents[4]).encode() not in content
    cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    other = cv2.dnn.readNetFromONNX(np.frombuffer(content, np.uint8))
    values = images_of(network, 1)
    other.setInput(values)
    expected = _logits(network, parameters, values)
    assert np.abs(other.forward() - expected).max() <= 1e-4 * np.abs(expected).max()


def test_layers_and_parameters_have_the_names_of_the_file(tmp_path: Path) -> None:
    path = behind(
        [node("Conv", "x a.0.weight a.0.bias", "m")],
        {"a.0.weight": array(5, 4, 3, 3), "a.0.bias": array(5), "channels": 5},
        tmp_path / "a.onnx",
    )
    found = from_onnx(path)
    assert found.network.name == "small"
    assert found.network.input_shape == (6, 6, 4)
    assert [*found.parameters.views] == ["a.0.weights", "a.0.bias", "fc.weights", "fc.bias"]
    assert np.array_equal(found.parameters.views["a.0.bias"], array(5))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Relu", "x", "y")], "output 'y' is no vector that nodes compute"),
        ([node("Identity", "t", "y")], "output 'y' is no vector"),
        ([node("Flatten", "x", "f"), node("Gemm", "f nan", "y", transB=1)], "expected finite"),
    ],
)
def test_what_is_no_classifier_is_refused(nodes: list[Any], message: str, tmp_path: Path) -> None:
    tensors = {"t": array(2, 3), "nan": np.full((3, 144), np.nan, np.float32)}
    with pytest.raises(NetworkError, match=f"a.onnx: .*{message}"):
        from_onnx(file_of(tmp_path / "a.onnx", nodes, tensors))
