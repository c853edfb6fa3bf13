"""Reads checkpoints: only those that are whole, and of the run that asks for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
    WITHOUT_DIGESTS,
    RunIdentity,
    WorkerState,
    shapes,
    worker_file,
)
from knltrain.checkpoint.folders import DIGEST, digest_of_tensors, digest_of_text, step_of
from knltrain.data.contents import DataContents
from knltrain.errors import CheckpointError, DamagedCheckpoint
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.optimizer import StateArray
from knltrain.vectors import FloatArray

Scalar = TypeVar("Scalar", bound=np.generic)

_FILES_AT_ONCE = 8
"""One core reads and checks more slowly than the storage of large machines delivers."""

_FACTS = frozenset({"step", "seed", "workers", "method", "format"})
_DESCRIPTION_KEYS = _FACTS | {"network", "parameters"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint of the right network; `step` is that of the run.

    `format` 3 has neither digests nor the `data` that the run has learned from.
    """

    folder: Path
    step: int
    seed: int
    workers: int
    method: str
    format: int
    data: DataContents | None
    center: ParameterVector


def load_checkpoint(folder: Path, network: Network) -> Checkpoint:
    """Read the model of a checkpoint, which must be of `network`.

    Raises `CheckpointError` when it is missing or of another network, `DamagedCheckpoint` when its
    content has changed.
    """
    state = _read_state(folder)
    if state["network"] != network.name or state["parameters"] != shapes(network):
        raise CheckpointError(
            f"{folder}: the checkpoint is of network {state['network']!r} with parameters "
            f"{state['parameters']}, but this run's network is {network.name!r} with "
            f"{shapes(network)}: name the checkpoint's network in network.name"
        )
    tensors, _ = _read_tensors(folder / CENTER, state["format"])
    center = ParameterVector(network)
    for name, view in center.views.items():
        view[:] = _tensor(tensors, name, view, folder / CENTER)
    facts = {key: state[key] for key in _FACTS}
    return Checkpoint(folder=folder, center=center, data=_data_of(state, folder), **facts)


def check_identity(checkpoint: Checkpoint, identity: RunIdentity) -> None:
    """Refuse a checkpoint of a run with other workers, method or seed: `CheckpointError`."""
    for key, kept, asked in (
        ("exchange.method", checkpoint.method, identity.method),
        ("nodes x workers", checkpoint.workers, identity.workers),
        ("seed", checkpoint.seed, identity.seed),
    ):
        if kept != asked:
            raise CheckpointError(
                f"{checkpoint.folder}: the checkpoint is of a run with {key} = {kept!r}, but "
                f"{key} = {asked!r} was asked for: resume with {key} = {kept!r}, or start a "
                "new run"
            )


def check_nodes(checkpoint: Checkpoint, before: int, nodes: int) -> None:
    """Refuse another number of nodes where workers keep what exchanges left: `CheckpointError`.

    Outer momentum, residuals of the wire and centers of groups belong to the workers of so many
    nodes as the run had `before`.
    """
    if nodes == before:
        return
    for rank in range(checkpoint.workers):
        with _opened(worker_file(checkpoint.folder, rank)) as (file, _):
            names = [name for name in file.keys() if name.startswith(EXCHANGE)]  # noqa: SIM118
        if names:
            kept = ", ".join(name.removeprefix(EXCHANGE) for name in names)
            raise CheckpointError(
                f"nodes = {nodes}: in {checkpoint.folder} worker {rank} keeps {kept} "
                f"of its exchanges between {before} nodes: resume with nodes = {before}, or start "
                "a new run from this one's model by network.weights"
            )


def load_worker_state(
    checkpoint: Checkpoint,
    rank: int,
    *,
    identity: RunIdentity,
    optimizer_state: Mapping[str, StateArray],
    exchange_state: Mapping[str, FloatArray] = MappingProxyType({}),
) -> WorkerState:
    """Read the state that one worker needs to resume the run.

    `optimizer_state` and `exchange_state` are examples with the expected names, shapes and types.
    Raises `CheckpointError` when the checkpoint is not of the run that `identity` describes or of
    another optimizer, or when the worker's file is missing or damaged (`DamagedCheckpoint`).
    """
    check_identity(checkpoint, identity)
    path = worker_file(checkpoint.folder, rank)
    tensors, metadata = _read_tensors(path, checkpoint.format)
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


def check_whole(folder: Path) -> None:
    """Read all of a checkpoint, every worker's file; `DamagedCheckpoint` if it has changed.

    In format 3 only missing or truncated files are found. Raises `CheckpointError` for a format
    that this version does not read. Files are read in parallel, a tensor at a time.
    """
    state = _read_state(folder)
    files = [folder / CENTER, *(worker_file(folder, rank) for rank in range(state["workers"]))]
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        for _ in pool.map(partial(_check_file, written_as=state["format"]), files):
            pass


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise _damaged(folder, "it is no folder")
        raise CheckpointError(
            f"{folder}: no such checkpoint: expected a folder checkpoint-<step> of a run"
        )
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error
    missing = _DESCRIPTION_KEYS - set(state if isinstance(state, dict) else ())
    if missing:
        raise _damaged(path, f"it lacks {', '.join(sorted(missing))}")
    if DIGEST in state or state["format"] == FORMAT_VERSION:
        _check_digest(path, state.get(DIGEST), digest_of_text(state))
    _check_fact(path, state, "format")
    if state["format"] not in (FORMAT_VERSION, WITHOUT_DIGESTS):
        raise CheckpointError(
            f"{path}: the checkpoint has format {state['format']}, this version of knltrain reads "
            f"formats {WITHOUT_DIGESTS} and {FORMAT_VERSION}: resume it with the version that "
            "wrote it"
        )
    for key in sorted(_FACTS):
        _check_fact(path, state, key)
    if step_of(folder) not in (None, state["step"]):
        raise _damaged(path, f"step = {state['step']} in a folder that is called {folder.name}")
    return state


def _check_fact(path: Path, state: Mapping[str, Any], key: str) -> None:
    if type(state[key]) is not (str if key == "method" else int):
        raise _damaged(path, f"{key} = {str(state[key])[:60]!r}")


def _data_of(state: Mapping[str, Any], folder: Path) -> DataContents | None:
    fields = state.get("data")
    try:
        return None if fields is None else DataContents.from_fields(fields)
    except (KeyError, TypeError) as error:
        raise _damaged(folder / DESCRIPTION, f"its data: {error}") from error


def _read_tensors(
    path: Path, written_as: int
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    with _opened(path) as (file, metadata):
        tensors = dict(_tensors_of(file))
        if written_as != WITHOUT_DIGESTS:
            found = digest_of_tensors(tensors.items(), metadata)
            _check_digest(path, metadata.get(DIGEST), found)
        return tensors, metadata


def _check_file(path: Path, written_as: int) -> None:
    with _opened(path) as (file, metadata):
        found = digest_of_tensors(_tensors_of(file), metadata)
        if written_as != WITHOUT_DIGESTS:
            _check_digest(path, metadata.get(DIGEST), found)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """A file of tensors and its metadata; errors name the checkpoint."""
    try:
        with safe_open(path, framework="numpy") as file:
            yield file, dict(file.metadata() or {})
    except (OSError, SafetensorError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, error) from error


def _tensors_of(file: Any) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for name in file.keys():  # noqa: SIM118
        yield name, file.get_tensor(name)


def _check_digest(path: Path, written: object, found: str) -> None:
    if written != found:
        raise _damaged(path, f"its digest is {found}, but {written} was written")


def _own_step(metadata: Mapping[str, str], path: Path) -> int:
    try:
        return int(metadata["step"])
    except (KeyError, ValueError):
        raise _damaged(path, "it does not tell its worker's step") from None


def _own_seconds(metadata: Mapping[str, str], path: Path) -> dict[str, float]:
    try:
        seconds = json.loads(metadata.get("seconds", "{}"))
        return {str(name): float(each) for name, each in seconds.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise _damaged(path, "it does not tell its worker's seconds") from None


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


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    if isinstance(error, PermissionError):
        return CheckpointError(f"{path}: cannot be read ({error.strerror}): make it readable")
    if isinstance(error, FileNotFoundError):
        return DamagedCheckpoint(f"{path}: is missing: the checkpoint is damaged")
    return _damaged(path, str(error))


def _damaged(path: Path, why: str) -> DamagedCheckpoint:
    return DamagedCheckpoint(f"{path}: cannot be read ({why}): the checkpoint is damaged")
