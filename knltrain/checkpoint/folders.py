"""The checkpoints of a run folder: a folder each, named after its step."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"checkpoint-(\d+)")


def folder_at(run_folder: Path, step: int) -> Path:
    """The folder of the checkpoint after `step` steps, which need not exist."""
    return run_folder / f"checkpoint-{step}"


def step_of(folder: Path) -> int | None:
    """The step in a checkpoint folder's name, or None for another name."""
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else None


def by_step(run_folder: Path) -> list[tuple[int, Path]]:
    """Step and folder of every checkpoint of the run, ascending."""
    named = ((step_of(path), path) for path in run_folder.glob("checkpoint-*"))
    return sorted((step, path) for step, path in named if step is not None)


def latest_checkpoint(run_folder: Path) -> Path | None:
    """Folder of the checkpoint with the highest step, or None where the run has none."""
    found = by_step(run_folder)
    return found[-1][1] if found else None
