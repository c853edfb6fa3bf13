"""The shares of a run in a file of its folder, from which another run can take them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from knltrain.errors import ConfigError

SHARES = "shares.csv"
"""In a run's folder; a row for the begin of the run, and one whenever shares were fitted anew."""


@dataclass(frozen=True, slots=True)
class SharesFrom:
    """The images of each worker in steps from ``step`` on, counted from 0."""

    step: int
    images: tuple[int, ...]


def header_of(workers: int) -> list[str]:
    """The names of the columns: the step, then of each worker its images and seconds of a batch."""
    kinds = ("images", "seconds")
    return ["step", *(f"{kind}_{rank}" for kind in kinds for rank in range(workers))]


def row_of(found: SharesFrom, seconds: Sequence[float]) -> list[str]:
    """A row; ``seconds`` are those that a batch was expected to take each worker."""
    return [str(found.step), *map(str, found.images), *(f"{each:.6f}" for each in seconds)]


def rows_before(path: Path, step: int) -> list[list[str]]:
    """The rows of a run's file that are of steps before this one; none of a file that has none."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))[1:]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
    return [row for row in rows if row and row[0].isdecimal() and int(row[0]) < step]


def images_at(recorded: Sequence[SharesFrom], step: int) -> tuple[int, ...]:
    """The shares of a step, which must not come before the first ones."""
    return next(each.images for each in reversed(recorded) if each.step <= step)


def read_shares(path: Path, batch: int, workers: int) -> tuple[SharesFrom, ...]:
    """The shares of a run, from the first step on; ConfigError for a file of another kind of run.

    ``batch`` and ``workers`` are those of the run that takes them.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"balance.replay = '{path}': cannot be read ({error}); expected the {SHARES} of a "
            "run's folder"
        ) from None
    where = f"balance.replay = '{path}'"
    if not rows or rows[0] != header_of(workers):
        raise ConfigError(
            f"{where}: expected the columns {', '.join(header_of(workers))}, as the {SHARES} of a "
            f"run with {workers} workers has them"
        )
    found = []
    for line, row in enumerate(rows[1:], start=2):
        try:
            step, *images = map(int, row[: workers + 1])
        except ValueError:
            step, images = -1, []
        are_all = step >= 0 and len(images) == workers
        if not are_all or min(images) < 0 or not images[0] or sum(images) != batch:
            raise ConfigError(
                f"{where}, line {line}: '{','.join(row)}': expected a step, then {workers} numbers "
                f"of images that add up to train.batch = {batch}, with some for rank 0"
            )
        found.append(SharesFrom(step, tuple(images)))
    steps = [each.step for each in found]
    if not found or steps != sorted(set(steps)):
        raise ConfigError(f"{where}: expected rows with rising steps, got the steps {steps}")
    return tuple(found)
