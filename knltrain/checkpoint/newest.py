"""Finds the newest checkpoint that is whole, and sets damaged ones after it aside."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from knltrain.checkpoint.folders import by_step
from knltrain.checkpoint.reader import check_whole
from knltrain.errors import CheckpointError, DamagedCheckpoint


def newest_whole(run_folder: Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """Folder of the newest whole checkpoint, and the damaged ones after it with their faults.

    None where the run has no checkpoint. Renames nothing. Raises `DamagedCheckpoint` where none is
    whole, and `CheckpointError` where one cannot be read.
    """
    damaged: list[tuple[Path, str]] = []
    for _, folder in reversed(by_step(run_folder)):
        try:
            check_whole(folder)
        except DamagedCheckpoint as error:
            damaged.append((folder, str(error)))
        else:
            return folder, damaged
    if damaged:
        raise DamagedCheckpoint(
            f"{'; '.join(why for _, why in damaged)}; no checkpoint is whole: start a new run"
        )
    return None, []


def set_aside(damaged: Sequence[tuple[Path, str]], whole: Path) -> list[str]:
    """Rename damaged checkpoints to `checkpoint-<step>.damaged`, and return notes on each.

    `whole` is the one that the run resumes from. Nothing is deleted. Raises `CheckpointError` where
    one cannot be renamed.
    """
    return [
        f"{why}, and now called {_set_aside(folder).name}; the newest whole one is {whole.name}"
        for folder, why in damaged
    ]


def _set_aside(folder: Path) -> Path:
    for number in itertools.count(1):
        ending = "damaged" if number == 1 else f"damaged-{number}"
        aside = folder.with_name(f"{folder.name}.{ending}")
        if not (aside.exists() or aside.is_symlink()):
            break
    try:
        return folder.rename(aside)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: the checkpoint is damaged and cannot be renamed ({error.strerror}): make "
            "the run folder writable"
        ) from error
