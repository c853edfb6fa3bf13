"""Which device PyTorch computes on, by its name in a configuration; what it says when it fails."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from knltrain.errors import ConfigError, DeviceError

_MIB: Final = 2**20


def device_named(
    name: str, position: int = 0, workers: int = 1, key: str = "backend.device"
) -> torch.device:
    """The device of the worker at `position` among the `workers` of its computer.

    `name` is "cpu", "auto" (the accelerator that PyTorch finds, else the cpu), or a kind as "cuda",
    of which each worker takes one of its own, or one device as "cuda:1", which workers share.
    `key` is where it was named. Raises ConfigError where there is none, or not enough of them.
    """
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        if found is None:
            return torch.device("cpu")
        name = found.type
    if name == "cpu":
        return torch.device("cpu")
    kind, _, index = name.partition(":")
    where = f"{key} = '{name}'"
    count = _count(kind, where)
    if index:
        if int(index) >= count:
            raise ConfigError(
                f"{where}: there {_are(count, kind)} here; expected '{kind}:0' "
                f"to '{kind}:{count - 1}', or '{kind}' for one to each worker"
            )
        return torch.device(name)
    if workers > count:
        raise ConfigError(
            f"{where} with {workers} workers on this computer: there "
            f"{_are(count, kind)}, and each worker takes one; expected workers = {count}, or "
            f"'{kind}:0', which workers share"
        )
    return torch.device(kind, position)


def device_or_host(name: str) -> str:
    """The device of one process by this name; "cpu" where there is none."""
    try:
        return str(device_named(name))
    except ConfigError:
        return "cpu"


def described(device: torch.device) -> dict[str, object]:
    """The device's name, and its memory in bytes, as far as PyTorch tells them."""
    found: dict[str, object] = {"device": str(device)}
    tell = getattr(_of_kind(device.type), "get_device_properties", None)
    if tell is not None and device.type != "cpu":
        properties = tell(device)
        found["model"] = str(properties.name)
        found["memory_bytes"] = int(properties.total_memory)
    return found


def identity_of(device: torch.device) -> int:
    """A number of 48 bits that two devices of a computer do not share, by their UUIDs."""
    tell = getattr(_of_kind(device.type), "get_device_properties", None)
    properties = None if tell is None or device.type == "cpu" else tell(device)
    text = str(getattr(properties, "uuid", device))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little")


@contextmanager
def failures_told(device: torch.device, images: int | None = None) -> Iterator[None]:
    """Turn what a device fails with into a DeviceError that says what to do.

    After any other error than a lack of memory a device's process cannot use it again: CUDA's
    errors are sticky.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        batch = "" if images is None else f" with a batch of {images} images"
        raise DeviceError(
            f"{device}: out of memory{batch}{_memory(device)}; lower train.batch, or set "
            f"train.iter_size ({_first_line(error)})"
        ) from error
    except RuntimeError as error:
        if any(each in str(error) for each in _NOT_DETERMINISTIC):
            raise DeviceError(
                f"{device}: train.deterministic = true, but {_first_line(error)}; expected a "
                "network without this operation, or deterministic = false"
            ) from error
        if not isinstance(error, _ACCELERATOR_ERRORS):
            raise
        raise DeviceError(
            f"{device}: failed ({_first_line(error)}); this process cannot use it any more: look "
            "at the driver's log (dmesg, nvidia-smi -q), then resume the run"
        ) from error


_NOT_DETERMINISTIC: Final = (
    "does not have a deterministic implementation",
    "CUBLAS_WORKSPACE_CONFIG",
)

_ACCELERATOR_ERRORS: Final[tuple[type[Exception], ...]] = tuple(
    filter(None, (getattr(torch, "AcceleratorError", None),))
)
"""Torch before 2.9 has none."""


def _count(kind: str, where: str) -> int:
    module = _of_kind(kind)
    if module is None or not hasattr(module, "device_count"):
        raise ConfigError(
            f"{where}: PyTorch {torch.__version__} knows no devices '{kind}'; "
            "expected 'cpu', 'auto', or 'cuda', 'cuda:1', 'xpu'"
        )
    if not module.is_available():
        raise ConfigError(f"{where}: {_reason(kind, module)}")
    return int(module.device_count())


def _of_kind(kind: str) -> Any:
    """torch.cuda, torch.xpu and so on; None where torch has no such part."""
    return getattr(torch, kind, None)


def _reason(kind: str, module: Any) -> str:
    """Why a kind of device is not available."""
    kinds = (kind, "hip") if kind == "cuda" else (kind,)  # AMD's GPUs are "cuda", too
    if not any(getattr(torch.version, each, None) for each in kinds):
        way = " (pip install torch, without an index of CPU builds)" if kind == "cuda" else ""
        return (
            f"PyTorch {torch.__version__} is built without '{kind}'; install one that is built for "
            f"it{way}, or set device = 'cpu'"
        )
    try:
        module.init()
    except Exception as error:  # noqa: BLE001  (each driver has errors of its own)
        told = _first_line(error)
    else:
        told = "the driver finds no device"
    return (
        f"no such device can be used on {platform.node()} ({told}); look at its driver "
        "(nvidia-smi, xpu-smi), at CUDA_VISIBLE_DEVICES and at what the job asked for (--gres), or "
        "set device = 'cpu'"
    )


def _are(count: int, kind: str) -> str:
    return f"is 1 device '{kind}'" if count == 1 else f"are {count} devices '{kind}'"


def _memory(device: torch.device) -> str:
    tell = getattr(_of_kind(device.type), "mem_get_info", None)
    if tell is None or device.type == "cpu":
        return ""
    free, whole = tell(device)
    return f" ({free / _MIB:,.0f} of {whole / _MIB:,.0f} MiB are free)"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
