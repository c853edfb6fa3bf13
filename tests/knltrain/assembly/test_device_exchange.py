"""Exchanges between devices that cannot be are refused before a worker starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.assembly.device_exchange import check_within_nodes
from knltrain.assembly.names import plain_method
from knltrain.config import RunConfig
from knltrain.errors import ConfigError

Make = Callable[..., RunConfig]


def refusal(config: RunConfig) -> str:
    method = plain_method(config, config.total_workers)
    with pytest.raises(ConfigError) as found:
        check_within_nodes(config, method)
    return str(found.value)


def on_devices(config: Make, **changes: object) -> RunConfig:
    given = {"exchange__within_nodes": "device", "backend__device": "cuda", "workers": 2}
    return config(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"backend__device": "cpu"}, "but worker 0 computes on the host: expected 'segment'"),
        ({"backend__device": "cuda:1"}, "several workers share the device 'cuda:1'"),
        ({"exchange__method": "sync_sgd", "nodes": 2}, "on 2 computers: expected 'segment'"),
        ({"exchange__method": "seasgd"}, "with method seasgd: expected 'segment', or a method"),
        ({"exchange__method": "diloco"}, "with method diloco"),
        ({"exchange__method": "sync_easgd1"}, "with method sync_easgd1"),
        ({"exchange__method": "sync_easgd3"}, "with method sync_easgd3"),
        ({"exchange__method": "layerwise_sgd"}, "with method layerwise_sgd"),
        ({"exchange__method": "core_groups"}, "with method core_groups"),
        (
            {"exchange__method": "sync_sgd", "exchange__packing": "per_layer"},
            "with method sync_sgd",
        ),
    ],
)
def test_what_cannot_exchange_on_devices_is_named(
    config: Make, changes: dict[str, object], told: str
) -> None:
    assert told in refusal(on_devices(config, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"exchange__method": "sync_sgd"},
        {"exchange__method": "sync_easgd2"},
        {"exchange__method": "local_sgd"},
        {"exchange__method": "shmcaffe_h", "exchange__group_size": 2},
    ],
)
def test_plain_averages_can(config: Make, changes: dict[str, object]) -> None:
    chosen = on_devices(config, **changes)
    check_within_nodes(chosen, plain_method(chosen, 2))
