"""PyTorch's global switches are set while a backend is open, and not longer."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
import torch.utils.deterministic

from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.devices import device_named, failures_told
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.backends.torch.switches import Precision, Switches
from knltrain.data.dataset import Batch
from knltrain.errors import DeviceError
from knltrain.network.layers import Dense, Dropout
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray, aligned_zeros


def state() -> tuple[bool, ...]:
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_switches_are_set_and_put_back(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, deterministic: bool
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = state()
    switches = Switches(torch.device("cuda"), precision, deterministic)
    rounds = precision == "tf32"
    assert state()[:3] == (rounds, rounds, not deterministic)
    assert torch.are_deterministic_algorithms_enabled() is deterministic
    assert torch.utils.deterministic.fill_uninitialized_memory is not deterministic
    assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) is deterministic
    switches.restore()
    assert state() == before
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


def test_the_host_changes_what_is_deterministic_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    before = state()
    switches = Switches(torch.device("cpu"), "bfloat16", deterministic=True)
    assert state() == (*before[:3], True, False, False)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    switches.restore()
    assert state() == before


def test_an_operation_that_has_no_deterministic_algorithm_is_named() -> None:
    with (
        pytest.raises(DeviceError, match=r"cuda: train.deterministic = true, but put_ does not"),
        failures_told(torch.device("cuda")),
    ):
        raise RuntimeError("put_ does not have a deterministic implementation, but you set 'x'.")
    with pytest.raises(RuntimeError, match="shapes"), failures_told(torch.device("cpu")):
        raise RuntimeError("shapes do not fit")


def gradient_of(network: Network, key: int, mirrors: Mirrors | None = None) -> FloatArray:
    parameters, gradient = ParameterVector(network), aligned_zeros(network.packed_size)
    parameters.initialise(3)
    draws = np.random.default_rng(5)
    images = draws.standard_normal((8, *network.input_shape), np.float32)
    batch = Batch(images, draws.integers(0, 4, 8), np.full(1, key, np.uint64))
    backend = TorchBackend(network, 8, 1, mirrors=mirrors, deterministic=True)
    backend.loss_and_gradient(batch, parameters.packed, gradient)
    backend.close()
    return gradient


DROPPING = Network("dropping", (4, 4, 2), (Dense("wide", 64), Dropout("drop"), Dense("fc", 4)))


@pytest.mark.parametrize("key", [0, 7, 2**64 - 1])
def test_dropout_draws_by_the_key_of_a_batch_alone(one_thread: None, key: int) -> None:
    first = gradient_of(DROPPING, key)
    torch.rand(3, dtype=torch.float32)
    np.testing.assert_array_equal(gradient_of(DROPPING, key), first)
    assert not np.array_equal(gradient_of(DROPPING, key // 2 + 1), first)


@pytest.mark.gpu
def test_a_device_computes_the_same_bits_again() -> None:
    from knltrain.network.zoo.networks import network_named

    for network in (DROPPING, network_named("resnet-18", 4)):
        found = [gradient_of(network, 7, Mirrors(device_named("auto"))) for _ in range(3)]
        for again in found[1:]:
            np.testing.assert_array_equal(again, found[0])
