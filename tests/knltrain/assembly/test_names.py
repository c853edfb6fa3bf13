"""Names become objects, or are refused with what is known; nothing heavy before it is needed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from knltrain.assembly import names
from knltrain.assembly.names import (
    OPTIMIZERS,
    build_backend,
    build_method,
    build_network,
    build_optimizer,
    build_wire_format,
    check_names,
    network_size,
    written_for_the_wire,
)
from knltrain.communication.internode.collective import OneNode
from knltrain.communication.internode.wire import CompressedCollective
from knltrain.errors import ConfigError, NetworkError


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("network__name", "lenett", "network.name 'lenett': .* did you mean 'lenet'"),
        ("data__name", "digit", "data.name 'digit': .* did you mean 'digits'"),
        ("optimizer__name", "sdg", "optimizer.name 'sdg': .* did you mean 'sgd'"),
        ("exchange__method", "sync_easg", "exchange.method 'sync_easg': .* mean 'sync_easgd'"),
        ("backend__name", "gpu", "backend.name 'gpu': expected one of 'cpu', 'torch'"),
        ("backend__implementation", "onednm", "backend.implementation .* mean 'onednn'"),
    ],
)
def test_unknown_name_is_refused_with_the_known_ones(config, key, given, expected):
    with pytest.raises(ConfigError, match=f"unknown {expected}"):
        check_names(config(**{key: given}))


def test_known_names_pass(config):
    for method in ("sync_easgd", "sync_sgd", "none"):
        check_names(config(exchange__method=method))


def test_engine_that_is_not_installed_is_refused(config, monkeypatch):
    chosen = config(backend__engine="ipex")
    monkeypatch.setattr(names, "check_ipex", lambda: None)
    check_names(chosen)

    def absent():
        raise ConfigError("no IPEX here")

    monkeypatch.setattr(names, "check_ipex", absent)
    check_names(config())
    with pytest.raises(ConfigError, match="no IPEX here"):
        check_names(chosen)


def test_names_and_sizes_are_known_without_any_heavy_import():
    code = """
import sys
from knltrain.assembly import check_names, network_size
from knltrain.config import RunConfig
config = RunConfig.model_validate({"network": {"name": "lenet"}, "data": {"name": "digits"},
    "train": {"steps": 5, "batch": 8}, "learning_rate": {"base": 0.1}})
check_names(config)
network_size(config)
print([name for name in ("numpy", "numba", "torch", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_size_is_that_of_the_packed_vector(config):
    network = build_network(config())
    assert network_size(config()) == network.packed_size >= network.parameter_count == 431_080


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    ("implementation", "kernels"),
    [("numba", "numba"), ("onednn", "numba"), ("reference", "reference")],
)
def test_kernels_beside_the_network_follow_the_implementation(
    config, implementation, kernels, name
):
    chosen = config(backend__implementation=implementation, optimizer__name=name)
    optimizer = build_optimizer(chosen, build_network(chosen))
    method = build_method(chosen, 1)
    file = name if name in ("sgd", "lars", "adamw") else "adaptive"
    assert optimizer._update.__module__ == f"vectorized_ops.{kernels}.{file}"
    assert method.rule._kernels.__name__ == f"vectorized_ops.{kernels}.elastic"


@pytest.mark.parametrize(("name", "expected"), [("torch", "TorchBackend"), ("cpu", "CpuBackend")])
def test_backend_is_the_one_that_is_named(config, name, expected):
    chosen = config(backend__name=name)
    backend = build_backend(chosen, build_network(chosen), 2, 1)
    assert type(backend).__name__ == expected
    backend.close()


@pytest.mark.parametrize("name", ["bfloat16", "int8", "top_k"])
def test_sums_between_nodes_are_written_in_the_format_that_is_named(config, name):
    chosen = config(exchange__wire_format=name)
    assert build_wire_format(chosen, 1000).name == name
    made = written_for_the_wire(chosen, OneNode(), 1000)
    assert isinstance(made, CompressedCollective)
    values = np.arange(1000, dtype=np.float32)
    made.all_reduce(values)
    assert values[-1] == pytest.approx(999, rel=0.01)


def test_float32_goes_as_the_collective_has_it(config):
    alone = OneNode()
    assert build_wire_format(config(), 1000) is None
    assert written_for_the_wire(config(), alone) is alone


def test_share_of_the_largest_is_a_hundredth_unless_told_otherwise(config):
    for chosen, share in (({}, 0.01), ({"exchange__wire_top_share": 0.25}, 0.25)):
        made = build_wire_format(config(exchange__wire_format="top_k", **chosen), 80_000)
        assert made.bytes_for(80_000) == 8 * 80_000 * share


def test_network_has_the_multipliers_and_frozen_layers_of_the_configuration(config):
    chosen = config(
        network__frozen=["conv1*"],
        network__multipliers=[{"pattern": "*.bias", "learning_rate": 2.0, "weight_decay": 0.0}],
    )
    factors = {
        spec.name: (spec.learning_rate_multiplier, spec.decay_multiplier)
        for spec in build_network(chosen).parameters
    }
    assert factors["conv1.weights"] == (0, 1)
    assert factors["conv2.weights"] == (1, 1)
    plain = {spec.name: spec for spec in build_network(config()).parameters}
    assert factors["conv2.bias"] == (2 * plain["conv2.bias"].learning_rate_multiplier, 0)
    with pytest.raises(NetworkError, match=r"in network.frozen 'cnov1'.*did you mean 'conv1'"):
        build_network(config(network__frozen=["cnov1"]))
