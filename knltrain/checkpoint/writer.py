"""Writes the checkpoints of a run: all workers together, each checkpoint whole or not at all."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
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
    RunIdentity,
    WorkerState,
    shapes,
    worker_file,
)
from knltrain.checkpoint.folders import (
    DIGEST,
    by_step,
    digest_of_tensors,
    digest_of_text,
    folder_at,
)
from knltrain.errors import CheckpointError
from knltrain.exchange.transports.team import Team
from knltrain.files.durable import sync
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.optimizer import StateArray
from knltrain.vectors import FloatArray

_PARTIAL, _STUCK = ".partial", ".stuck-"


@final
class CheckpointWriter:
    """Writes the checkpoints of one run; keeps the newest and the `keep` (at least 1) before it.

    A checkpoint proves good only at the next step, by a finite loss: in every worker that of its
    own parameters. When all workers come to the next checkpoint, their losses were finite, so the
    one before is good. The newest is never proved, not even at the end of the run, so it does not
    count among the `keep`.
    """

    def __init__(self, run_folder: Path, identity: RunIdentity, team: Team, keep: int) -> None:
        self._run_folder = run_folder
        self._identity = identity
        self._team = team
        self._leads = team.rank == 0
        self._keep = keep

    def save(self, state: WorkerState, run_step: int | None = None) -> Path:
        """Write `checkpoint-<run_step>` and return its folder; None: the step of the worker.

        Collective: every worker writes its own file, rank 0 the rest. After each part all learn
        whether all have succeeded. Either the checkpoint exists for all of them, or all raise
        `CheckpointError`, and the older checkpoints are unchanged. In a worker that has failed
        itself that error has a cause.
        """
        step = state.step if run_step is None else run_step
        folder = folder_at(self._run_folder, step)
        partial = _hidden(folder)
        self._together(folder, partial, lambda: self._begin(partial))
        self._together(folder, partial, lambda: self._write_own(partial, state, step))
        self._together(folder, partial, lambda: self._end(partial, folder, step))
        return folder

    def set_aside(self, step: int) -> None:
        """Rename `checkpoint-<step>`, if there is one: its model gives no finite loss.

        Not collective: any worker may call this, also all at once. The files stay for analysis in
        `checkpoint-<step>.diverged`. Raises nothing where the folder cannot be renamed: the loss is
        the error that ends the run.
        """
        folder = folder_at(self._run_folder, step)
        aside = folder.with_name(f"{folder.name}.diverged")
        own = _hidden(folder, f".diverged-{self._team.rank}")
        with suppress(OSError):
            folder.rename(own)  # one worker alone can do that, and goes on
            shutil.rmtree(aside, ignore_errors=True)
            own.rename(aside)

    def _together(self, folder: Path, partial: Path, part: Callable[[], None]) -> None:
        """Do this worker's part, and learn whether all others could do theirs (collective).

        No worker goes on before all have stopped: else one would remove the folder while others
        still write, and these would report that error instead.
        """
        failure: Exception | None = None
        try:
            part()
        except (OSError, SafetensorError) as error:
            failure = error
        if not self._team.all_sum(np.array([failure is not None], np.float64))[0]:
            return
        if self._leads:
            shutil.rmtree(partial, ignore_errors=True)
        why = "another worker could not write its part" if failure is None else str(failure)
        raise CheckpointError(
            f"{folder}: cannot write the checkpoint ({why}): make room or check the permissions; "
            "the checkpoints before it are untouched"
        ) from failure

    def _begin(self, partial: Path) -> None:
        if self._leads:
            self._clear_partial_folders()
            partial.mkdir()

    def _end(self, partial: Path, folder: Path, step: int) -> None:
        if self._leads:
            _publish(partial, folder)
            self._prune(step)

    def _write_own(self, partial: Path, state: WorkerState, step: int) -> None:
        if self._leads:
            self._write_shared(partial, state.center, step)
        _write_worker(worker_file(partial, self._team.rank), state)

    def _write_shared(self, partial: Path, center: FloatArray, step: int) -> None:
        network = self._identity.network
        views = ParameterVector(network, center).views
        origin = json.dumps({"network": network.name, "step": step})
        _write_tensors(partial / CENTER, views, {"checkpoint": origin})
        description: dict[str, object] = {
            "format": FORMAT_VERSION,
            "step": step,
            "seed": self._identity.seed,
            "workers": self._identity.workers,
            "method": self._identity.method,
            "network": network.name,
            "parameters": shapes(network),
            "data": None if self._identity.data is None else asdict(self._identity.data),
        }
        description[DIGEST] = digest_of_text(description)
        (partial / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")
        sync(partial / DESCRIPTION)

    def _clear_partial_folders(self) -> None:
        """Remove partial folders; rename those that cannot be removed."""
        for left_over in self._run_folder.glob(".checkpoint-*.partial"):
            shutil.rmtree(left_over, ignore_errors=True)
            if left_over.exists() and _STUCK not in left_over.name:
                with suppress(OSError):
                    left_over.rename(_free_name(left_over))

    def _prune(self, step: int) -> None:
        """Remove checkpoints that are too old, and those beyond `step`: these steps are taken anew.

        A folder that cannot be removed stays until the next checkpoint; the new one exists in any
        case.
        """
        found = by_step(self._run_folder)
        reached = [folder for at, folder in found if at <= step]
        beyond = [folder for at, folder in found if at > step]
        for folder in (*reached[: -self._keep - 1], *beyond):
            removed = _hidden(folder, ".removed")
            with suppress(OSError):
                folder.rename(removed)  # first, so that a kill leaves no half of a checkpoint
                shutil.rmtree(removed)


def _hidden(folder: Path, role: str = "") -> Path:
    """A name for a temporary folder beside a checkpoint; the next checkpoint removes it."""
    return folder.with_name(f".{folder.name}{role}{_PARTIAL}")


def _free_name(left_over: Path) -> Path:
    """An unused temporary name, for a folder that cannot be removed now."""
    stem = left_over.name.removesuffix(_PARTIAL)
    names = (f"{stem}{_STUCK}{number}{_PARTIAL}" for number in itertools.count(1))
    return next(free for name in names if not (free := left_over.with_name(name)).exists())


def _write_worker(path: Path, state: WorkerState) -> None:
    tensors: dict[str, StateArray] = {LOCAL: state.local}
    for prefix, states in ((OPTIMIZER, state.optimizer), (EXCHANGE, state.exchange)):
        tensors.update({prefix + name: values for name, values in states.items()})
    metadata = {"step": str(state.step), "seconds": json.dumps(dict(state.seconds))}
    _write_tensors(path, tensors, metadata)


def _write_tensors(path: Path, tensors: Mapping[str, StateArray], metadata: dict[str, str]) -> None:
    """Write a file with its own digest, and sync it to the disk."""
    digest = digest_of_tensors(tensors.items(), metadata)
    try:
        save_file(dict(tensors), path, metadata={**metadata, DIGEST: digest})
    except SafetensorError as error:  # which does not say what file it is about
        raise SafetensorError(f"{path.name}: {error}") from error
    sync(path)


def _publish(partial: Path, folder: Path) -> None:
    """Give a complete checkpoint its name; an old one of the same step is moved away just before.

    Raises OSError, and leaves all as it was, where that cannot be done durably.
    """
    sync(partial)
    replaced = _hidden(folder, ".replaced")
    if folder.exists():
        folder.rename(replaced)
    try:
        partial.rename(folder)
        sync(folder.parent)
    except OSError:
        for there, back in ((folder, partial), (replaced, folder)):
            with suppress(OSError):
                there.rename(back)
        raise
    if replaced.exists():
        shutil.rmtree(replaced, ignore_errors=True)
