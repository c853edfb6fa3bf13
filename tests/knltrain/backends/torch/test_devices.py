"""Devices by their names, what is refused, and what is said when one fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from knltrain.backends.torch import devices
from knltrain.backends.torch.devices import described, device_named, failures_told
from knltrain.errors import ConfigError, DeviceError


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two devices of a kind that torch knows, without a driver."""
    found = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 2,
        get_device_properties=lambda device: SimpleNamespace(
            name=f"GPU {device.index}", total_memory=2**33
        ),
        mem_get_info=lambda _device: (2**30, 2**33),
    )
    monkeypatch.setattr(torch, "cuda", found)
    return found


def test_the_host_needs_no_driver() -> None:
    assert device_named("cpu", 3, 8) == torch.device("cpu")
    assert described(torch.device("cpu")) == {"device": "cpu"}


def test_each_worker_gets_a_device_of_its_own(gpus: SimpleNamespace) -> None:
    assert [device_named("cuda", each, 2) for each in range(2)] == [
        torch.device("cuda:0"),
        torch.device("cuda:1"),
    ]
    assert device_named("cuda:1", 5, 8) == torch.device("cuda:1")
    assert described(torch.device("cuda:1")) == {
        "device": "cuda:1",
        "model": "GPU 1",
        "memory_bytes": 2**33,
    }


@pytest.mark.parametrize(
    ("name", "workers", "told"),
    [
        ("cuda", 3, "'cuda' with 3 workers on this computer: there are 2 devices.*workers = 2"),
        ("cuda:2", 1, "'cuda:2': there are 2 devices 'cuda' here; expected 'cuda:0' to 'cuda:1'"),
        ("tpu", 1, "knows no devices 'tpu'; expected 'cpu', 'auto'"),
    ],
)
def test_devices_that_are_not_there_are_refused(
    gpus: SimpleNamespace, name: str, workers: int, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        device_named(name, 0, workers)


def test_a_build_for_cpus_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(is_available=bool, device_count=int))
    monkeypatch.setattr(torch, "version", SimpleNamespace(cuda=None, hip=None))
    with pytest.raises(ConfigError, match=r"is built without 'cuda'; install one .* \(pip install"):
        device_named("cuda")
    with pytest.raises(ConfigError, match=r"backend\.workers\[1\]\.device = 'cuda': PyTorch"):
        device_named("cuda", key="backend.workers[1].device")
    monkeypatch.setattr(torch, "xpu", SimpleNamespace(is_available=bool, device_count=int))
    with pytest.raises(ConfigError, match=r"is built without 'xpu'; install one .* it, or set"):
        device_named("xpu")


def test_what_a_driver_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040).\nx")

    module = SimpleNamespace(is_available=bool, device_count=int, init=init)
    monkeypatch.setattr(torch, "cuda", module)
    monkeypatch.setattr(torch, "version", SimpleNamespace(cuda="13.0", hip=None))
    with pytest.raises(ConfigError, match=r"too old \(found version 11040\)\); look at its driver"):
        device_named("cuda:0")


@pytest.mark.parametrize(("found", "expected"), [(None, "cpu"), ("cuda", "cuda:1")])
def test_auto_is_the_accelerator_or_the_host(
    gpus: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, found: str | None, expected: str
) -> None:
    device = None if found is None else torch.device(found)
    asked: list[dict[str, Any]] = []

    def current(**given: Any) -> torch.device | None:
        asked.append(given)
        return device

    monkeypatch.setattr(torch, "accelerator", SimpleNamespace(current_accelerator=current))
    assert device_named("auto", 1, 2) == torch.device(expected)
    assert asked == [{"check_available": True}]  # else torch names one that has no driver


def test_a_lack_of_memory_names_sizes(gpus: SimpleNamespace) -> None:
    device = torch.device("cuda:0")
    with (
        pytest.raises(DeviceError, match="cuda:0: out of memory with a batch of 64 images") as told,
        failures_told(device, 64),
    ):
        raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB.\nmore")
    assert "(1,024 of 8,192 MiB are free); lower train.batch" in str(told.value)
    assert str(told.value).endswith("(Tried to allocate 2.00 GiB)")


def test_an_error_that_stays_says_that_the_process_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FailedError(RuntimeError):
        pass

    monkeypatch.setattr(devices, "_ACCELERATOR_ERRORS", (FailedError,))
    with (
        pytest.raises(DeviceError, match=r"xpu:0: failed \(illegal access\); this process cannot"),
        failures_told(torch.device("xpu:0"), 1),
    ):
        raise FailedError("illegal access\nCUDA kernel errors might be reported elsewhere")
    with pytest.raises(ValueError, match="plain"), failures_told(torch.device("xpu:0"), 1):
        raise ValueError("plain")
