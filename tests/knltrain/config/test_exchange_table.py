from __future__ import annotations

import pytest
from pydantic import ValidationError

from knltrain.config.exchange_table import ExchangeConfig


def test_keys_of_some_methods_are_left_open() -> None:
    table = ExchangeConfig()
    assert (table.method, table.communication_period, table.packing) == ("sync_easgd", 1, "packed")
    assert table.moving_rate is table.center_momentum is table.group_size is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"moving_rate": 1.0},
        {"beta": 1.5},
        {"rho": 0.0},
        {"center_learning_rate": 0.0},
        {"averaging_rate": 1.5},
        {"group_size": 0},
        {"synchronous_steps": -1},
        {"fragments": 0},
        {"mixing": 1.0},
        {"packing": "by layer"},
        {"wire_format": "float16"},
        {"wire_top_share": 0.51},
        {"timeout_seconds": 0.0},
        {"fusion_kib": -1},
        {"all_reduce": "tree"},
    ],
)
def test_values_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ExchangeConfig.model_validate(wrong)


@pytest.mark.parametrize("keys", [("moving_rate", "beta"), ("beta", "rho"), ("moving_rate", "rho")])
def test_the_pull_is_said_once(keys: tuple[str, str]) -> None:
    told = " and ".join(f"{key} = 0.5" for key in keys)
    with pytest.raises(ValidationError, match=f"{told} both say how strong the pull is: give one"):
        ExchangeConfig.model_validate(dict.fromkeys(keys, 0.5))


def test_an_algorithm_of_sums_is_for_those_of_our_own() -> None:
    assert ExchangeConfig(between_nodes="gaspi", all_reduce="ring").all_reduce == "ring"
    for way in ("auto", "mpi"):
        with pytest.raises(ValidationError, match=f"'ring' with between_nodes = '{way}', which"):
            ExchangeConfig(between_nodes=way, all_reduce="ring")
    with pytest.raises(ValidationError, match=r"'int8' with between_nodes = 'gaspi', which sums"):
        ExchangeConfig(between_nodes="gaspi", wire_format="int8")


def test_latency_of_no_link_is_refused() -> None:
    linked = ExchangeConfig(emulated_link_gbits=10.0, emulated_latency_us=50.0)
    assert linked.emulated_latency_us == 50.0
    with pytest.raises(ValidationError, match="emulated_latency_us = 50 is that of an emulated"):
        ExchangeConfig(emulated_latency_us=50.0)
