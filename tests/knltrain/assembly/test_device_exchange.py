"""Exchanges between devices that cannot be are refused before a worker starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.assembly import device_exchange
from knltrain.assembly.device_exchange import check_within_nodes
from knltrain.assembly.names import plain_method
from knltrain.communication import device_sum
from knltrain.config import RunConfig
from knltrain.errors import ConfigError

Make = Callable[..., RunConfig]


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many GPUs as workers, and a library for them."""

    def with_own_backend(config: RunConfig, rank: int) -> RunConfig:
        named = config.backend.device
        device = {"cuda": f"cuda:{rank}", "mixed": ("cuda:0", "xpu:0")[rank]}.get(named, named)
        return config.model_copy(
            update={"backend": config.backend.model_copy(update={"device": device})}
        )

    monkeypatch.setattr(device_exchange, "with_own_backend", with_own_backend)
    monkeypatch.setattr(device_sum, "check_library", lambda _kind: None)


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
        ({"backend__device": "cuda:1"}, "workers 0 and 1 share the device 'cuda:1'"),
        ({"exchange__method": "sync_sgd", "nodes": 2}, "on 2 computers: expected 'segment'"),
        ({"exchange__method": "seasgd"}, "with method seasgd: expected 'segment', or a method"),
        ({"exchange__method": "diloco"}, "with method diloco"),
        ({"exchange__method": "sync_easgd1"}, "with method sync_easgd1"),
        ({"exchange__method": "sync_easgd3"}, "with method sync_easgd3"),
        ({"exchange__method": "layerwise_sgd"}, "with method layerwise_sgd"),
        ({"exchange__method": "core_groups"}, "with method core_groups"),
        (
            {"exchange__method": "sync_sgd", "exchange__packing": "per_layer"},
            "with exchange.packing = 'per_layer': leave one of them out",
        ),
        (
            {"exchange__method": "sync_easgd2", "exchange__emulated_link_gbits": 10.0},
            "with exchange.emulated_link_gbits = 10.0",
        ),
    ],
)
def test_what_cannot_exchange_on_devices_is_named(
    config: Make, changes: dict[str, object], told: str
) -> None:
    assert told in refusal(on_devices(config, **changes))


def test_devices_of_two_kinds_are_refused(config: Make) -> None:
    chosen = on_devices(config, exchange__method="sync_sgd")
    backend = chosen.backend.model_copy(update={"device": "mixed"})
    assert "of the kinds cuda and xpu" in refusal(chosen.model_copy(update={"backend": backend}))


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
