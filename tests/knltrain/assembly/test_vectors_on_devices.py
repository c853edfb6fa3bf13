"""Whole runs whose vectors live on a device: they end with the bits of runs on the host.

The host keeps copies apart here, as a device does.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from knltrain.assembly import names, worker
from knltrain.backends.torch.devices import device_or_host
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.worker.observer import Observer
from tests.knltrain.assembly.test_worker import EACH_KIND, OF_ONE, StopsAfter, by


@pytest.fixture
def on_a_device(monkeypatch):
    """Vectors of workers that are built from here on have copies apart; returns all mirrors."""
    made = []

    def apart(_config):
        made.append(Mirrors(HOST, are_apart=True))
        return made[-1]

    def begin():
        monkeypatch.setattr(worker, "build_space", apart)
        return made

    return begin


@pytest.fixture
def same_bits(config, run, tmp_path, on_a_device):
    """same_bits(...): a run ends on a device as on the host, to the bit or within `rounding`."""

    def compare(rounding=0.0, **changes):
        chosen, results = config(**changes), []
        for place in ("host", "device"):
            if place == "device":
                on_a_device()
            (tmp_path / place).mkdir()
            results.append(run(chosen, tmp_path / place))
        for here, there in zip(*results, strict=True):
            np.testing.assert_allclose(there, here, rtol=rounding, atol=rounding)

    return compare


@by("method", OF_ONE, EACH_KIND)
def test_every_method_has_the_bits_of_the_host(same_bits, method):
    period = "communication_period" in names.METHODS[method].exchange
    changes = {"exchange__communication_period": 4} if period else {}
    if method == "streaming_diloco":
        changes |= {"exchange__fragments": 2, "exchange__delay_steps": 1}
    same_bits(exchange__method=method, optimizer__name="sgd", train__steps=6, **changes)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sgd", {"momentum": 0.0, "weight_decay": 0.01}),
        ("sgd", {"nesterov": True, "regularisation": "l1", "weight_decay": 0.01}),
        ("sgd", {"clip_norm": 0.5}),
        ("sgd", {"clip_value": 0.001}),
        *product(("adamw", "adam", "adagrad", "rmsprop", "adadelta"), ({"weight_decay": 0.01},)),
    ],
)
def test_every_optimizer_has_the_bits_of_the_host(same_bits, name, options):
    same_bits(
        rounding=0 if name == "sgd" else 1e-4,  # PyTorch's roots on processors are off by a bit
        optimizer__name=name,
        train__steps=4,
        network__frozen=["conv1"],
        **{f"optimizer__{key}": value for key, value in options.items()},
    )


def test_a_resumed_run_goes_on_with_the_devices_state(config, run, tmp_path, on_a_device):
    on_a_device()
    chosen = config(checkpoint__every_epochs=1.0, checkpoint__keep=9)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    expected = run(chosen, whole)
    with pytest.raises(KeyboardInterrupt):
        run(chosen, stopped, observers=[StopsAfter(3)])
    for found, wanted in zip(run(chosen, stopped, resume=True), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("method", ["sync_easgd3", "sync_sgd"])
def test_steps_of_several_batches_have_the_bits_of_the_host(same_bits, method):
    same_bits(exchange__method=method, train__batch=8, train__iter_size=2, train__steps=4)


@pytest.mark.parametrize(
    ("changes", "copies"),
    [
        # After every fourth step the parameters come to the host, and go back.
        ({"exchange__method": "local_sgd", "exchange__communication_period": 4}, "00200020"),
        ({"exchange__method": "none"}, "00000000"),
        # The gradient goes to the host in every step, and its sum comes back.
        ({"exchange__method": "sync_sgd"}, "22222222"),
    ],
)
def test_only_what_is_exchanged_is_copied(
    config, make_worker, tmp_path, on_a_device, monkeypatch, changes, copies
):
    on_a_device()
    chosen = config(evaluation__every_epochs=0.0, train__steps=9, **changes)
    size, copied, counts = names.network_size(chosen), [], []
    copy = torch.Tensor.copy_

    def counting(tensor, source, **options):
        copied.extend([1] * (tensor.numel() == size))
        return copy(tensor, source, **options)

    class Counts(Observer):
        def step_done(self, *_):
            counts.append(len(copied))

    with make_worker(chosen, tmp_path, observers=[Counts()]) as built:
        monkeypatch.setattr(torch.Tensor, "copy_", counting)
        built.run()
    assert "".join(map(str, np.diff(counts)[:8])) == copies


@pytest.mark.gpu
@pytest.mark.skipif(
    device_or_host("auto") == "cpu", reason="PyTorch finds no device beside the host: no GPU here"
)
@pytest.mark.parametrize("method", sorted(EACH_KIND))
def test_a_device_trains_as_the_host_does(config, run, tmp_path, method):
    ends = []
    for device in ("cpu", "auto"):
        (tmp_path / device).mkdir()
        chosen = config(exchange__method=method, train__steps=6, backend__device=device)
        ends.append(run(chosen, tmp_path / device))
    for here, there in zip(*ends, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-3)
