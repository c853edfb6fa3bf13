"""Operations on activations in bfloat16: results are those of float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from contracts.memory import ROUNDED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CONTRACTS = (
    "arrays", "flattening", "convolution", "pooling", "not_numbers_in_pooling", "average_pooling",
    "global_average_pooling", "local_response", "dense", "relu", "rectifier",
    "activation", "affine", "channel_product", "channel_scale", "channel_selection",
    "layer_normalisation", "dropout", "addition", "parametric_rectifier", "padding",
    "within_channel",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTRACTS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_operations_follow_the_reference(
    name: str,
    data: st.DataObject,
    request: pytest.FixtureRequest,
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    contract = request.getfixturevalue(f"{name}_contract")
    given = () if name == "not_numbers_in_pooling" else (data.draw,)
    with storing(data.draw(st.booleans())):
        contract(ROUNDED, *given)


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_batch_normalisation_follows_the_reference(
    data: st.DataObject,
    normalisation_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        normalisation_contract(ROUNDED, data.draw)
