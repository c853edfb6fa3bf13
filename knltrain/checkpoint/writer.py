"""Writing the checkpoints of a run: all workers together, each checkpoint whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

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
from knltrain.checkpoint.folders import by_step, folder_at
from knltrain.errors import CheckpointError
from knltrain.exchange.transport import Team
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.optimizer import StateArray


@final
class CheckpointWriter:
    """Writes the checkpoints of one run; keeps the newest and the `keep` (at least 1) before it.

    Whether a model is any good shows only afterwards: the loss of the next step judges it, in
    every worker that of its own parameters. When all workers come to the next checkpoint, their
    losses were finite and the one before is good. Nothing judges the newest, not even at the end
    of the run, so it counts as none of the `keep`.
    """

    def __init__(self, run_folder: Path, identity: RunIdentity, team: Team, keep: int) -> None:
        self._run_folder = run_folder
        self._identity = identity
        self._team = team
        self._leads = team.rank == 0
        self._keep = keep

    def save(self, state: WorkerState, run_step: int | None = None) -> Path:
        """Write `checkpoint-<run_step>` and return its folder; None: the step of the worker.

        Collective: every worker writes its own file, rank 0 the rest. Raises `CheckpointError`
        in the workers that cannot write, and leaves the older checkpoints as they were; the
        others wait, and raise what the team does when a worker fails.
        """
        step = state.step if run_step is None else run_step
        folder = folder_at(self._run_folder, step)
        partial = _hidden(folder)
        try:
            if self._leads:
                self._clear_partial_folders()
                partial.mkdir()
            self._team.barrier()
            self._write_together(partial, state, step)
            if self._leads:
                _publish(partial, folder)
                self._prune(step)
            self._team.barrier()
        except (OSError, SafetensorError) as error:
            if self._leads:
                shutil.rmtree(partial, ignore_errors=True)
            raise CheckpointError(
                f"{folder}: cannot write the checkpoint ({error}): make room or check the "
                "permissions; the checkpoints before it are untouched"
            ) from error
        return folder

    def set_aside(self, step: int) -> None:
        """Make `checkpoint-<step>` one no more, if there is one: its model gives no finite loss.

        Not collective: any worker that sees it may call this, all of them at once as well. The
        files stay for those who look for the reason, in `checkpoint-<step>.diverged`. Raises
        nothing where the folder cannot be moved: it is the loss that ended the run.
        """
        folder = folder_at(self._run_folder, step)
        aside = folder.with_name(f"{folder.name}.diverged")
        own = _hidden(folder, f".diverged-{self._team.rank}")
        with suppress(OSError):
            folder.rename(own)  # one worker alone can do that, and goes on
            shutil.rmtree(aside, ignore_errors=True)
            own.rename(aside)

    def _write_together(self, partial: Path, state: WorkerState, step: int) -> None:
        """Write this worker's files; who cannot raises, but not before all have stopped writing.

        Else one would remove the folder under the others, who would then tell of that instead.
        """
        failure: Exception | None = None
        try:
            self._write_own(partial, state, step)
        except (OSError, SafetensorError) as error:
            failure = error
        failures = self._team.all_sum(np.array([failure is not None], np.float64))
        if not failures[0]:
            return
        if self._leads:
            shutil.rmtree(partial, ignore_errors=True)
        if failure is not None:
            raise failure
        self._team.barrier()  # raises: a worker that could not write never comes here

    def _write_own(self, partial: Path, state: WorkerState, step: int) -> None:
        if self._leads:
            self._write_shared(partial, state.center, step)
        _write_worker(worker_file(partial, self._team.rank), state)

    def _write_shared(self, partial: Path, center: FloatArray, step: int) -> None:
        network = self._identity.network
        views = ParameterVector(network, center).views
        origin = json.dumps({"network": network.name, "step": step})
        _write_tensors(partial / CENTER, views, {"checkpoint": origin})
        description = {
            "format": FORMAT_VERSION,
            "step": step,
            "seed": self._identity.seed,
            "workers": self._identity.workers,
            "method": self._identity.method,
            "network": network.name,
            "parameters": shapes(network),
        }
        (partial / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")
        _sync(partial / DESCRIPTION)

    def _clear_partial_folders(self) -> None:
        for left_over in self._run_folder.glob(".checkpoint-*.partial"):
            shutil.rmtree(left_over)

    def _prune(self, step: int) -> None:
        """Remove what is too old, and what lies beyond `step`: steps that are now taken anew."""
        found = by_step(self._run_folder)
        reached = [folder for at, folder in found if at <= step]
        beyond = [folder for at, folder in found if at > step]
        for folder in (*reached[: -self._keep - 1], *beyond):
            shutil.rmtree(folder)


def _hidden(folder: Path, role: str = "") -> Path:
    """A name beside a checkpoint's for what is none; the next checkpoint removes what has it."""
    return folder.with_name(f".{folder.name}{role}.partial")


def _write_worker(path: Path, state: WorkerState) -> None:
    tensors: dict[str, StateArray] = {LOCAL: state.local}
    for prefix, states in ((OPTIMIZER, state.optimizer), (EXCHANGE, state.exchange)):
        tensors.update({prefix + name: values for name, values in states.items()})
    metadata = {"step": str(state.step), "seconds": json.dumps(dict(state.seconds))}
    _write_tensors(path, tensors, metadata)


def _write_tensors(path: Path, tensors: Mapping[str, StateArray], metadata: dict[str, str]) -> None:
    try:
        save_file(dict(tensors), path, metadata=metadata)
    except SafetensorError as error:  # which does not say what file it is about
        raise SafetensorError(f"{path.name}: {error}") from error
    _sync(path)


def _publish(partial: Path, folder: Path) -> None:
    """Give a complete checkpoint its name; one of the same step makes room only just before."""
    _sync(partial)
    replaced = _hidden(folder, ".replaced")
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
