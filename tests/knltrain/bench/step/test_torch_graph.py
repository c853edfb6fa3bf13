"""A described network becomes ordinary PyTorch modules that compute the same."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from knltrain.backends.torch.backend import TorchBackend
from knltrain.bench.step.job import describe
from knltrain.bench.step.torch_graph import Graph
from knltrain.data.dataset import Batch
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Activation,
    AdaptiveAveragePooling,
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
    LayerNormalisation,
    LocalResponseNormalisation,
    MaxPooling,
    Padding,
    PReLU,
    ReLU,
    StochasticDepth,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

NETWORK = Network(
    "branched",
    (9, 8, 2),
    (
        Convolution("stem", 4, (3, 1), (2, 1), (1, 0), bias=False),
        BatchNormalisation("norm", epsilon=1e-3),
        ReLU("relu"),
        LocalResponseNormalisation("lrn", size=3, alpha=0.5, beta=0.6, bias=2.0),
        ReLU("leaky", slope=0.1),
        Convolution("left", 4, 3, padding=2, dilation=2, groups=2),
        Addition("sum", ("left", "leaky")),
        ReLU("capped", ceiling=0.5),
        ReLU("bent", slope=0.1, ceiling=0.5, inputs=("sum",)),
        MaxPooling("largest", 3, 2, 1, ceil=True, inputs=("capped",)),
        AveragePooling("mean", 3, 2, 1, ceil=True, inputs=("bent",)),
        Concatenation("joined", ("largest", "mean")),
        PReLU("slopes"),
        WithinChannelNormalisation("within", 3, 0.5),
        Padding("padded", 1, 0, 0, 2),
        GlobalAveragePooling("squeezed"),
        Activation("gates", "sigmoid"),
        ChannelProduct("excited", ("padded", "gates")),
        Affine("scaled", 0.5, 1.0),
        ChannelShuffle("shuffled", 2),
        ChannelSlice("sliced", 1, 7),
        LayerNormalisation("layer/norm", 0.1),
        ChannelScale("factors", 0.5),
        StochasticDepth("depth", 0.0),
        AdaptiveAveragePooling("adaptive", 3, 3),
        GlobalAveragePooling("pool"),
        BatchNormalisation("pool/norm"),
        Flatten("flat", ("adaptive",)),
        Concatenation("vectors", ("flat", "pool/norm")),
        Dense("hidden", 5),
        ReLU("hidden/relu"),
        Dropout("drop", 0.0),
        Dense("aside", 3),
        Dense("main", 3, bias=False, inputs=("joined",)),
    ),
    (Output("main"), Output("aside", 0.3)),
)


def _batch():
    random = np.random.default_rng(0)
    return Batch(random.standard_normal((5, 9, 8, 2), np.float32), random.integers(0, 3, 5))


def _as_read_by_a_peer(network):
    return json.loads(json.dumps(describe(network)))


def test_loss_and_gradient_are_those_of_the_network_itself():
    parameters, gradient = ParameterVector(NETWORK), ParameterVector(NETWORK)
    parameters.initialise(seed=1)
    for spec in NETWORK.parameters:
        if spec.role != "weights":
            parameters.views[spec.name][...] = np.linspace(0.4, 1.3, spec.size)
    backend = TorchBackend(NETWORK, 5, torch.get_num_threads())
    expected = backend.loss_and_gradient(_batch(), parameters.packed, gradient.packed)
    described = _as_read_by_a_peer(NETWORK)
    graph = Graph(described)
    graph.load(described["parameters"], parameters.views)
    images = torch.from_numpy(_batch().images_nhwc).permute(0, 3, 1, 2)
    loss = graph.loss(images, torch.from_numpy(_batch().labels))
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    ours = [gradient.views[spec.name] for spec in NETWORK.parameters if not spec.is_statistic]
    for theirs, own in zip(graph.parameters(), ours, strict=True):
        np.testing.assert_allclose(theirs.grad.numpy(), own, rtol=1e-4, atol=1e-6)


def test_running_statistics_are_loaded_and_then_move():
    network = Network("norm", (3, 3, 2), (BatchNormalisation("norm"), Dense("out", 2)))
    parameters = ParameterVector(network)
    parameters.views["norm.running_mean"][...] = 5
    described = _as_read_by_a_peer(network)
    graph = Graph(described)
    graph.load(described["parameters"], parameters.views)
    norm = graph.modules_in_order[0]
    assert norm.running_mean.tolist() == [5, 5]
    graph(torch.zeros(4, 2, 3, 3))
    assert norm.running_mean.tolist() == [4.5, 4.5]
    assert parameters.views["norm.running_mean"].tolist() == [5, 5]


def test_rectifiers_work_in_place_where_nobody_else_looks():
    layers = (
        Convolution("a", 2, 1),
        ReLU("after_a"),
        Convolution("b", 2, 1),
        ReLU("after_b"),
        Addition("sum", ("after_b", "b")),
        MaxPooling("pool", 2, 2),
        ReLU("after_pool"),
        Dense("main", 3),
        ReLU("after_main"),
        Dense("aside", 3),
    )
    network = Network("mixed", (4, 4, 1), layers, (Output("main"), Output("aside")))
    graph = Graph(_as_read_by_a_peer(network))
    inplace = [
        layer.name
        for layer, module in zip(layers, graph.modules_in_order, strict=True)
        if isinstance(module, nn.ReLU) and module.inplace
    ]
    assert inplace == ["after_a"]


def test_modules_are_ordinary_ones():
    kinds = {
        type(module).__name__
        for module in Graph(_as_read_by_a_peer(NETWORK)).modules()
        if not list(module.children())
    }
    assert {"Conv2d", "BatchNorm2d", "LocalResponseNorm", "Linear", "Dropout"} <= kinds
    assert {"MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "ReLU", "LeakyReLU"} <= kinds


def test_all_of_it_moves_to_a_device():
    graph = Graph(_as_read_by_a_peer(NETWORK)).to("meta")
    images = torch.empty(5, 2, 9, 8, dtype=torch.float32, device="meta")
    loss = graph.loss(images, torch.empty(5, dtype=torch.int64, device="meta"))
    assert loss.device.type == "meta"
    loss.backward()
