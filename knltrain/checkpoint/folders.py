"""The checkpoints of a run folder: a folder each, named after its step."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"checkpoint-(\d+)")


def folder_at(run_folder: Path, step: int) -> Path:
    """Where the checkpoint after `step` steps is, or is to be."""
    return run_folder / f"checkpoint-{step}"


def step_of(folder: Path) -> int | None:
    """The step that a folder's name tells, or None where it is not the name of a checkpoint."""
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else None


def by_step(run_folder: Path) -> list[tuple[int, Path]]:
    """Step and folder of every checkpoint of the run, rising."""
    named = ((step_of(path), path) for path in run_folder.glob("checkpoint-*"))
    return sorted((step, path) for step, path in named if step is not None)


def latest_checkpoint(run_folder: Path) -> Path | None:
    """Folder of the checkpoint with the highest step, or None where the run has none."""
    found = by_step(run_folder)
    return found[-1][1] if found else None
