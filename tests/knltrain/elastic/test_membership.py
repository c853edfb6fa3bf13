"""Who takes part: workers of one node and several, and settings that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from knltrain.elastic import Elastic
from knltrain.errors import ConfigError, NetworkError

from .launches import alone, launched

MASTERS = ("caffegpi", "caffe_mpi", "parameter_server")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "way"), [("sync_easgd", "gloo"), ("sync_sgd", "gloo"), ("seasgd", "mpi")]
)
def test_workers_of_two_nodes_come_to_the_center_of_one(method: str, way: str) -> None:
    if way == "mpi":
        pytest.importorskip("mpi4py")
    (_, first), (_, second) = launched("train", method, nodes=2, between_nodes=way)
    assert first == second
    if way != "mpi":  # whose workers come in any order
        assert first == launched("train", method)[0][1]


@pytest.mark.slow
def test_workers_with_different_models_are_refused() -> None:
    for _, (kind, message) in launched("another_model", "sync_easgd"):
        assert kind == "ConfigError"
        assert "network.name = 'Sequential, " in message


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("easgdd", {}, "unknown exchange.method .easgdd.*did you mean .easgd."),
        *((name, {}, "takes the optimizer's step at one worker for") for name in MASTERS),
        ("sync_easgd", {"moving_rate": 2.0}, "exchange.moving_rate"),
        ("sync_easgd", {"rho": 500.0}, "exchange.rho = 500 with a learning rate of"),
        ("sync_sgd", {"moving_rate": 0.2}, "exchange.moving_rate = 0.2 is read by"),
        ("sync_easgd", {"tau": 4}, "tau"),
        ("shmcaffe_h", {}, "expected at least 2"),
        ("streaming_diloco", {"fragments": 9}, "expected at most 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(method: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        alone(method, **options)


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(NetworkError, match="Identity has no floating-point parameters"):
        Elastic(nn.Identity(), torch.optim.SGD([torch.zeros(1)], 0.1))


def test_ranks_of_torch_that_no_launcher_has_started_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As mp.spawn does: each would train alone, without a word."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    with pytest.raises(ConfigError, match="has 2 ranks, but no launcher has started this process"):
        alone()
