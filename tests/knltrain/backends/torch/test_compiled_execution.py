"""Compiled modules compute what eager ones do."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.compiled_execution import CompiledExecution
from knltrain.data.dataset import Batch
from knltrain.network.graph import Output
from knltrain.network.layers import (
    BatchNormalisation,
    ChannelScale,
    Concatenation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    StochasticDepth,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

NETWORK = Network(
    "two outputs",
    (6, 6, 2),
    (
        Convolution("conv", 3, 3, padding=1),
        BatchNormalisation("norm"),
        Dense("aside", 4, inputs=("conv",)),
        Concatenation("both", ("norm", "conv")),
        Dense("out", 4, inputs=("both",)),
    ),
    outputs=(Output("out"), Output("aside", 0.3)),
)
needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") and Path(sysconfig.get_path("include"), "Python.h").exists()),
    reason="no g++ or no Python.h: scripts/system-packages installs them",
)


@needs_compiler
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
def test_gradients_statistics_and_logits_are_those_of_eager_modules() -> None:
    drawn = np.random.default_rng(3)
    images = drawn.standard_normal((4, *NETWORK.input_shape)).astype(np.float32)
    batch = Batch(images, drawn.integers(0, 4, 4))
    found = []
    for execution in (None, CompiledExecution(NETWORK)):
        backend = TorchBackend(NETWORK, 4, 1, execution)
        parameters, gradient = ParameterVector(NETWORK), ParameterVector(NETWORK)
        parameters.initialise(1)
        losses = [
            backend.loss_and_gradient(batch, parameters.packed, gradient.packed) for _ in range(2)
        ]
        logits = np.empty((4, 4), np.float32)
        backend.evaluate(batch, parameters.packed, logits)
        found.append((losses, gradient.packed.copy(), logits))
        backend.close()
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)


@needs_compiler
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize("first", ["evaluated", "trained"])
def test_modules_that_do_otherwise_in_training_are_asked_each_time(first: str) -> None:
    layers = (
        Convolution("conv", 4, 3, padding=1),
        ChannelScale("factors", 0.5),
        StochasticDepth("depth", 0.9999),
        GlobalAveragePooling("pool"),
        Dense("out", 4),
    )
    network = Network("drops", (6, 6, 2), layers)
    images = np.ones((4, 6, 6, 2), np.float32)
    batch = Batch(images, np.zeros(4, np.int64))
    backend = TorchBackend(network, 4, 1, CompiledExecution(network))
    parameters, gradient = ParameterVector(network), ParameterVector(network)
    parameters.initialise(1)
    logits = np.empty((4, 4), np.float32)

    def train() -> None:
        backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
        assert not gradient.views["conv.weights"].any()  # nothing passes by training

    if first == "trained":
        train()
    backend.evaluate(batch, parameters.packed, logits)
    assert np.ptp(logits) > 0
    train()
    backend.close()
