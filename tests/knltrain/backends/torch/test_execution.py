"""PyTorch's own modules on packed vectors; what they compute is tested with the backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knltrain.backends.backend import nobody_waits
from knltrain.backends.torch.execution import EagerExecution
from knltrain.network.layers import BatchNormalisation, Convolution, Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

NETWORK = Network(
    "small", (5, 5, 1), (Convolution("conv", 2, 3), BatchNormalisation("norm"), Dense("out", 3))
)


def _tensors(vector: ParameterVector) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(view) for name, view in vector.views.items()}


def test_same_vector_gives_the_same_module_whose_parameters_lie_in_it() -> None:
    execution, vector = EagerExecution(NETWORK), ParameterVector(NETWORK)
    module = execution.module_of(vector.packed)
    assert execution.module_of(vector.packed) is module
    assert execution.module_of(ParameterVector(NETWORK).packed) is not module
    places = [parameter.data_ptr() for parameter in module.parameters()]
    trained = [spec.name for spec in NETWORK.parameters if not spec.is_statistic]
    assert places == [vector.views[name].ctypes.data for name in trained]


def test_gradient_is_written_where_it_is_wanted_and_statistics_are_left_alone() -> None:
    execution, vector = EagerExecution(NETWORK), ParameterVector(NETWORK)
    vector.initialise(seed=1)
    module = execution.module_of(vector.packed)
    for _ in range(2):  # Each time into another vector.
        gradient = ParameterVector(NETWORK)
        loss = module(torch.arange(50.0).reshape(2, 1, 5, 5)).square().sum()
        execution.backward(loss, module, _tensors(gradient), nobody_waits)
        assert gradient.views["conv.weights"].any()
        assert gradient.views["out.bias"] == pytest.approx(2 * _logits_sum(module), rel=1e-4)
        assert not np.any(gradient.views["norm.running_mean"])


def _logits_sum(module: torch.nn.Module) -> np.ndarray:
    with torch.no_grad():
        return module(torch.arange(50.0).reshape(2, 1, 5, 5)).sum(0).numpy()


def test_closed_execution_lets_go_of_its_modules() -> None:
    execution, vector = EagerExecution(NETWORK), ParameterVector(NETWORK)
    module = execution.module_of(vector.packed)
    execution.close()
    assert execution.module_of(vector.packed) is not module
