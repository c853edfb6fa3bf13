"""Reading checkpoints: only those that are whole, and of the run that asks for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from knltrain.checkpoint.contents import (
    CENTER,
    DESCRIPTION,
    EXCHANGE,
    FORMAT_VERSION,
    LOCAL,
    OPTIMIZER,
    FloatArray,
    RunIdentity,
    WorkerState,
    shapes,
    worker_file,
)
from knltrain.checkpoint.folders import by_step, step_of
from knltrain.errors import CheckpointError
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.optimizer import StateArray

Scalar = TypeVar("Scalar", bound=np.generic)

_FACTS = frozenset({"step", "seed", "workers", "method"})
_DESCRIPTION_KEYS = _FACTS | {"format", "network", "parameters"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was found whole and of the right network; `step` is that of the run."""

    folder: Path
    step: int
    seed: int
    workers: int
    method: str
    center: ParameterVector


def load_checkpoint(folder: Path, network: Network) -> Checkpoint:
    """Read the model of a checkpoint, which must be of `network`.

    Raises `CheckpointError` when it is missing, damaged or of another network.
    """
    state = _read_state(folder)
    if state["network"] != network.name or state["parameters"] != shapes(network):
        raise CheckpointError(
            f"{folder}: the checkpoint is of network {state['network']!r} with parameters "
            f"{state['parameters']}, but this run's network is {network.name!r} with "
            f"{shapes(network)}: name the checkpoint's network in network.name"
        )
    tensors, _ = _read_tensors(folder / CENTER)
    center = ParameterVector(network)
    for name, view in center.views.items():
        view[:] = _tensor(tensors, name, view, folder / CENTER)
    return Checkpoint(folder=folder, center=center, **{key: state[key] for key in _FACTS})


def check_identity(checkpoint: Checkpoint, identity: RunIdentity) -> None:
    """Refuse a checkpoint of a run with other workers, method or seed: `CheckpointError`."""
    for key, kept, asked in (
        ("exchange.method", checkpoint.method, identity.method),
        ("workers", checkpoint.workers, identity.workers),
        ("seed", checkpoint.seed, identity.seed),
    ):
        if kept != asked:
            raise CheckpointError(
                f"{checkpoint.folder}: the checkpoint is of a run with {key} = {kept!r}, but "
                f"{key} = {asked!r} was asked for: resume with {key} = {kept!r}, or start a "
                "new run"
            )


def load_worker_state(
    checkpoint: Checkpoint,
    rank: int,
    *,
    identity: RunIdentity,
    optimizer_state: Mapping[str, StateArray],
    exchange_state: Mapping[str, FloatArray] = MappingProxyType({}),
) -> WorkerState:
    """Read what one worker needs to resume the run.

    `optimizer_state` says by example what the optimizer needs to find, `exchange_state` what the
    exchange does. Raises `CheckpointError`
    when the checkpoint is not of the run that `identity` describes or of another optimizer, or
    when the worker's file is missing or damaged.
    """
    check_identity(checkpoint, identity)
    path = worker_file(checkpoint.folder, rank)
    tensors, metadata = _read_tensors(path)
    center = checkpoint.center.packed
    return WorkerState(
        step=_own_step(metadata, path),
        center=center,
        local=_tensor(tensors, LOCAL, center, path),
        optimizer={
            name: _tensor(tensors, OPTIMIZER + name, values, path)
            for name, values in optimizer_state.items()
        },
        seconds=_own_seconds(metadata, path),
        exchange={
            name: _tensor(tensors, EXCHANGE + name, values, path)
            for name, values in exchange_state.items()
        },
    )


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder}: no such checkpoint: expected a folder checkpoint-<step> of a run"
        )
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    missing = _DESCRIPTION_KEYS - set(state if isinstance(state, dict) else ())
    if missing:
        raise _damaged(path, ValueError(f"it lacks {', '.join(sorted(missing))}"))
    if state["format"] != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: the checkpoint has format {state['format']}, this version of knltrain reads "
            f"format {FORMAT_VERSION}: resume it with the version that wrote it"
        )
    for key in sorted(_FACTS):
        if type(state[key]) is not (str if key == "method" else int):
            raise _damaged(path, ValueError(f"{key} = {str(state[key])[:60]!r}"))
    return state


def _read_tensors(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error


def _own_step(metadata: Mapping[str, str], path: Path) -> int:
    try:
        return int(metadata["step"])
    except (KeyError, ValueError):
        raise _damaged(path, ValueError("it does not tell its worker's step")) from None


def _own_seconds(metadata: Mapping[str, str], path: Path) -> dict[str, float]:
    try:
        seconds = json.loads(metadata.get("seconds", "{}"))
        return {str(name): float(each) for name, each in seconds.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise _damaged(path, ValueError("it does not tell its worker's seconds")) from None


def _tensor(
    tensors: Mapping[str, npt.NDArray[Any]], name: str, like: npt.NDArray[Scalar], path: Path
) -> npt.NDArray[Scalar]:
    """The tensor `name`, which must have the type and the shape of `like`."""
    found = tensors.get(name)
    if found is None or found.shape != like.shape or found.dtype != like.dtype:
        given = "none" if found is None else f"{found.dtype} {found.shape}"
        raise CheckpointError(
            f"{path}: expected tensor {name!r} {like.dtype} {like.shape}, found {given}"
        )
    return found


def _damaged(path: Path, error: Exception) -> CheckpointError:
    reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
    folder = path.parent
    step = step_of(folder) or 0
    older = [other for at, other in by_step(folder.parent) if at < step]
    way_out = f"remove {folder} to go on from {older[-1].name}" if older else "start a new run"
    return CheckpointError(f"{path}: {reason}: the checkpoint is damaged; {way_out}")
