"""What every implementation of an operation must do; `reference/`, `numba/`, `onednn/` run this.

Each contract stands in `contracts/` and is handed to the tests as a fixture:
`pooling_contract("numba", data.draw)` draws one example of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

sys.path.append(str(Path(__file__).parent))  # modules beside tests are not importable otherwise

from contracts.classifier import (
    check_dense,
    check_infinities_in_loss,
    check_loss,
    check_other_losses,
)
from contracts.convolution import check_convolution
from contracts.memory import Memory
from contracts.normalisation import (
    check_layer_normalisation,
    check_local_response,
    check_normalisation,
    check_normalisation_backward,
    check_normalisation_of_any_values,
    check_statistics,
    check_within_channel,
)
from contracts.pooling import (
    check_average_pooling,
    check_global_average_pooling,
    check_max_pooling,
    check_not_numbers_in_pooling,
)
from contracts.values import (
    check_activation,
    check_addition,
    check_affine,
    check_arrays,
    check_channel_product,
    check_channel_scale,
    check_channel_selection,
    check_dropout,
    check_flattening,
    check_padding,
    check_parametric_rectifier,
    check_rectifier,
    check_relu,
)

Contract: TypeAlias = Callable[..., None]


@pytest.fixture(scope="session")
def memory() -> type[Memory]:
    return Memory


@pytest.fixture(scope="session")
def arrays_contract() -> Contract:
    return check_arrays


@pytest.fixture(scope="session")
def flattening_contract() -> Contract:
    return check_flattening


@pytest.fixture(scope="session")
def convolution_contract() -> Contract:
    return check_convolution


@pytest.fixture(scope="session")
def pooling_contract() -> Contract:
    return check_max_pooling


@pytest.fixture(scope="session")
def not_numbers_in_pooling_contract() -> Contract:
    return check_not_numbers_in_pooling


@pytest.fixture(scope="session")
def average_pooling_contract() -> Contract:
    return check_average_pooling


@pytest.fixture(scope="session")
def global_average_pooling_contract() -> Contract:
    return check_global_average_pooling


@pytest.fixture(
    scope="session",
    params=[
        check_statistics,
        check_normalisation,
        check_normalisation_of_any_values,
        check_normalisation_backward,
    ],
    ids=["statistics", "forward", "any values", "backward"],
)
def normalisation_contract(request: pytest.FixtureRequest) -> Contract:
    contract: Contract = request.param
    return contract


@pytest.fixture(scope="session")
def local_response_contract() -> Contract:
    return check_local_response


@pytest.fixture(scope="session")
def dense_contract() -> Contract:
    return check_dense


@pytest.fixture(scope="session")
def relu_contract() -> Contract:
    return check_relu


@pytest.fixture(scope="session")
def rectifier_contract() -> Contract:
    return check_rectifier


@pytest.fixture(scope="session")
def activation_contract() -> Contract:
    return check_activation


@pytest.fixture(scope="session")
def affine_contract() -> Contract:
    return check_affine


@pytest.fixture(scope="session")
def channel_product_contract() -> Contract:
    return check_channel_product


@pytest.fixture(scope="session")
def channel_scale_contract() -> Contract:
    return check_channel_scale


@pytest.fixture(scope="session")
def channel_selection_contract() -> Contract:
    return check_channel_selection


@pytest.fixture(scope="session")
def layer_normalisation_contract() -> Contract:
    return check_layer_normalisation


@pytest.fixture(scope="session")
def dropout_contract() -> Contract:
    return check_dropout


@pytest.fixture(scope="session")
def addition_contract() -> Contract:
    return check_addition


@pytest.fixture(scope="session")
def loss_contract() -> Contract:
    return check_loss


@pytest.fixture(scope="session")
def other_losses_contract() -> Contract:
    return check_other_losses


@pytest.fixture(scope="session")
def infinities_in_loss_contract() -> Contract:
    return check_infinities_in_loss


@pytest.fixture(scope="session")
def parametric_rectifier_contract() -> Contract:
    return check_parametric_rectifier


@pytest.fixture(scope="session")
def padding_contract() -> Contract:
    return check_padding


@pytest.fixture(scope="session")
def within_channel_contract() -> Contract:
    return check_within_channel
