"""Keeping a run on disk so that it can go on, bit for bit, as if it had never stopped.

A checkpoint is a folder `checkpoint-<step>`: `center.safetensors` (the model, one named tensor
per parameter), `worker-<rank>.safetensors` (that worker's packed local and its optimizer's state)
and `state.json`. It is written beside its place and renamed when complete, so a folder of that
name is always whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from knltrain.errors import CheckpointError
from knltrain.exchange.transport import Transport
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

FloatArray = npt.NDArray[np.float32]

FORMAT_VERSION = 2
_FACTS = frozenset({"step", "seed", "workers", "method"})
_STATE_KEYS = _FACTS | {"format", "network", "parameters"}
_NAME = re.compile(r"checkpoint-(\d+)")
_CENTER = "center.safetensors"
_LOCAL = "local"
_OPTIMIZER = "optimizer."


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What a checkpoint says about the run it comes from."""

    network: Network
    workers: int
    method: str
    seed: int


@dataclass(frozen=True, slots=True)
class WorkerState:
    """All that one worker needs to go on after `step` steps; n is the packed size."""

    step: int
    center: FloatArray
    """The model, (n,)."""
    local: FloatArray
    """This worker's own parameters, (n,)."""
    optimizer: Mapping[str, FloatArray]
    seconds: Mapping[str, float]
    """Readings of the worker's clocks."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was found whole and of the right network."""

    folder: Path
    step: int
    seed: int
    workers: int
    method: str
    center: ParameterVector


@final
class CheckpointWriter:
    """Writes the checkpoints of one run and keeps the newest `keep` (at least 1) good ones.

    Whether a model is any good shows only afterwards: the loss of the next step judges it. When
    all workers come to the next checkpoint, their losses were finite and the one before is good.
    Until then the newest counts as none of the `keep`.
    """

    def __init__(
        self, run_folder: Path, identity: RunIdentity, transport: Transport, keep: int
    ) -> None:
        self._run_folder = run_folder
        self._identity = identity
        self._transport = transport
        self._keep = keep

    def save(self, state: WorkerState, *, proved: bool = False) -> Path:
        """Write `checkpoint-<step>` and return its folder; `proved` says that its model is good.

        Collective: every worker writes its own file, rank 0 the rest. Raises `CheckpointError`
        when the folder cannot be written, and then leaves the older checkpoints as they were.
        """
        folder = self._run_folder / f"checkpoint-{state.step}"
        partial = self._run_folder / f".checkpoint-{state.step}.partial"
        leads = self._transport.rank == 0
        try:
            if leads:
                self._clear_partial_folders()
                partial.mkdir()
            self._transport.barrier()
            if leads:
                self._write_shared(partial, state)
            _write_worker(_worker_file(partial, self._transport.rank), state)
            self._transport.barrier()
            if leads:
                _publish(partial, folder)
                self._prune(state.step, self._keep if proved else self._keep + 1)
            self._transport.barrier()
        except (OSError, SafetensorError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise CheckpointError(
                f"{folder}: cannot write the checkpoint ({error}): make room or check the "
                "permissions; the checkpoints before it are untouched"
            ) from error
        return folder

    def set_aside(self, step: int) -> None:
        """Make `checkpoint-<step>` one no more, if there is one: its model gives no finite loss.

        Not collective: any worker that sees it may call this. The files stay for those who look
        for the reason, in `checkpoint-<step>.diverged`.
        """
        folder = self._run_folder / f"checkpoint-{step}"
        aside = folder.with_name(folder.name + ".diverged")
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
        with suppress(FileNotFoundError):  # there is none, or another worker was faster
            folder.rename(aside)

    def _write_shared(self, partial: Path, state: WorkerState) -> None:
        network = self._identity.network
        center = ParameterVector(network, state.center)
        origin = json.dumps({"network": network.name, "step": state.step})
        _write_tensors(partial / _CENTER, center.views, {"checkpoint": origin})
        description = {
            "format": FORMAT_VERSION,
            "step": state.step,
            "seed": self._identity.seed,
            "workers": self._identity.workers,
            "method": self._identity.method,
            "network": network.name,
            "parameters": _shapes(network),
        }
        (partial / "state.json").write_text(json.dumps(description, indent=2) + "\n")
        _sync(partial / "state.json")

    def _clear_partial_folders(self) -> None:
        for left_over in self._run_folder.glob(".checkpoint-*.partial"):
            shutil.rmtree(left_over)

    def _prune(self, step: int, keep: int) -> None:
        """Remove what is too old, and what lies beyond `step`: steps that are now taken anew."""
        found = _by_step(self._run_folder)
        reached = [folder for at, folder in found if at <= step]
        beyond = [folder for at, folder in found if at > step]
        for folder in (*reached[:-keep], *beyond):
            shutil.rmtree(folder)


def latest_checkpoint(run_folder: Path) -> Path | None:
    """Folder of the checkpoint with the highest step, or None where the run has none."""
    found = _by_step(run_folder)
    return found[-1][1] if found else None


def load_checkpoint(folder: Path, network: Network) -> Checkpoint:
    """Read the model of a checkpoint, which must be of `network`.

    Raises `CheckpointError` when it is missing, damaged or of another network.
    """
    state = _read_state(folder)
    if state["network"] != network.name or state["parameters"] != _shapes(network):
        raise CheckpointError(
            f"{folder}: the checkpoint is of network {state['network']!r} with parameters "
            f"{state['parameters']}, but this run's network is {network.name!r} with "
            f"{_shapes(network)}: name the checkpoint's network in network.name"
        )
    tensors, _ = _read_tensors(folder / _CENTER)
    center = ParameterVector(network)
    for name, view in center.views.items():
        view[:] = _tensor(tensors, name, view.shape, folder / _CENTER)
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
    optimizer_state: Mapping[str, FloatArray],
) -> WorkerState:
    """Read what one worker needs to resume the run.

    `optimizer_state` says by example what the optimizer needs to find. Raises `CheckpointError`
    when the checkpoint is not of the run that `identity` describes or of another optimizer, or
    when the worker's file is missing or damaged.
    """
    check_identity(checkpoint, identity)
    path = _worker_file(checkpoint.folder, rank)
    tensors, metadata = _read_tensors(path)
    center = checkpoint.center.packed
    return WorkerState(
        step=checkpoint.step,
        center=center,
        local=_tensor(tensors, _LOCAL, center.shape, path),
        optimizer={
            name: _tensor(tensors, _OPTIMIZER + name, values.shape, path)
            for name, values in optimizer_state.items()
        },
        seconds=json.loads(metadata.get("seconds", "{}")),
    )


def _worker_file(folder: Path, rank: int) -> Path:
    return folder / f"worker-{rank}.safetensors"


def _write_worker(path: Path, state: WorkerState) -> None:
    optimizer = {_OPTIMIZER + name: values for name, values in state.optimizer.items()}
    seconds = json.dumps(dict(state.seconds))
    _write_tensors(path, {_LOCAL: state.local, **optimizer}, {"seconds": seconds})


def _write_tensors(path: Path, tensors: Mapping[str, FloatArray], metadata: dict[str, str]) -> None:
    try:
        save_file(dict(tensors), path, metadata=metadata)
    except SafetensorError as error:  # which does not say what file it is about
        raise SafetensorError(f"{path.name}: {error}") from error
    _sync(path)


def _publish(partial: Path, folder: Path) -> None:
    """Give a complete checkpoint its name; one of the same step makes room only just before."""
    _sync(partial)
    replaced = folder.with_name(f".{folder.name}.replaced.partial")
    if folder.exists():
        folder.rename(replaced)
    partial.rename(folder)
    _sync(folder.parent)
    if replaced.exists():
        shutil.rmtree(replaced)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _by_step(run_folder: Path) -> list[tuple[int, Path]]:
    names = ((_NAME.fullmatch(path.name), path) for path in run_folder.glob("checkpoint-*"))
    return sorted((int(match[1]), path) for match, path in names if match)


def _shapes(network: Network) -> dict[str, list[int]]:
    return {each.name: list(each.shape) for each in network.parameters}


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / "state.json"
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder}: no such checkpoint: expected a folder checkpoint-<step> of a run"
        )
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    missing = _STATE_KEYS - set(state if isinstance(state, dict) else ())
    if missing:
        raise _damaged(path, ValueError(f"it lacks {', '.join(sorted(missing))}"))
    if state["format"] != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: the checkpoint has format {state['format']}, this version of knltrain reads "
            f"format {FORMAT_VERSION}: resume it with the version that wrote it"
        )
    return state


def _read_tensors(path: Path) -> tuple[dict[str, FloatArray], dict[str, str]]:
    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error


def _tensor(
    tensors: Mapping[str, FloatArray], name: str, shape: tuple[int, ...], path: Path
) -> FloatArray:
    found = tensors.get(name)
    if found is None or found.shape != shape or found.dtype != np.float32:
        given = "none" if found is None else f"{found.dtype} {found.shape}"
        raise CheckpointError(f"{path}: expected a float32 tensor {name!r} {shape}, found {given}")
    return found


def _damaged(path: Path, error: Exception) -> CheckpointError:
    reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
    folder = path.parent
    older = [other for _, other in _by_step(folder.parent) if _step(other) < _step(folder)]
    way_out = f"remove {folder} to go on from {older[-1].name}" if older else "start a new run"
    return CheckpointError(f"{path}: {reason}: the checkpoint is damaged; {way_out}")


def _step(folder: Path) -> int:
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else 0
