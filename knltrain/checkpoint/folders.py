"""The checkpoints of a run folder: a folder each, named after its step; digests of its files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

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


DIGEST = "digest"
"""The key of a file's own digest, which is that of all else in it."""


def digest_of_tensors(
    tensors: Iterable[tuple[str, npt.NDArray[Any]]], metadata: Mapping[str, str]
) -> str:
    """The digest of a file of named tensors: names, types, shapes and values, and its metadata.

    It does not depend on their order. Each tensor is read once and may then be released.
    """
    parts = sorted(f"{name} {_digest_of_tensor(values)}" for name, values in tensors)
    others = {key: value for key, value in metadata.items() if key != DIGEST}
    return digest_of_text({"tensors": parts, "metadata": others})


def digest_of_text(fields: Mapping[str, Any]) -> str:
    """The digest of a JSON object, without the digest that it may contain."""
    others = {key: value for key, value in fields.items() if key != DIGEST}
    return xxh3_128(json.dumps(others, sort_keys=True).encode()).hexdigest()


def _digest_of_tensor(values: npt.NDArray[Any]) -> str:
    found = xxh3_128(f"{values.dtype.str} {values.shape} ".encode())
    found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()
