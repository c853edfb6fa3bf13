"""How many steps a worker takes between its exchanges, where each comes to the center alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from knltrain.errors import ConfigError
from knltrain.files.durable import write_whole

PERIODS: Final = "periods.csv"
"""In a run's folder: a row for each worker, by rank."""

_HEADER: Final = "rank,communication_period,step_seconds"


def periods_by_speed(step_seconds: Sequence[float], period: int) -> tuple[int, ...]:
    """The periods of workers whose steps take so long: all come as often by the clock.

    The slowest has `period`, and worker r max(1, floor(period * v_r / v_min)) with v its steps per
    second: dynamic local updates, Liu et al. 2024 (arXiv 2401.09135).
    """
    slowest = max(step_seconds)
    return tuple(max(1, int(period * (slowest / seconds))) for seconds in step_seconds)


def write_periods(path: Path, periods: Sequence[int], step_seconds: Sequence[float]) -> None:
    """Write the periods of all workers, and the seconds of a step that they were found by."""
    rows = [
        f"{rank},{period},{seconds:.6f}"
        for rank, (period, seconds) in enumerate(zip(periods, step_seconds, strict=True))
    ]
    write_whole(path, "\n".join([_HEADER, *rows, ""]))


def read_periods(path: Path, workers: int) -> tuple[int, ...]:
    """The periods that a run's file has, by rank; ConfigError for one that is damaged."""
    expected = f"expected the columns {_HEADER} and a row for each of {workers} workers, by rank"
    try:
        header, *rows = path.read_text(encoding="utf-8").splitlines() or [""]
        found = [(int(rank), int(period)) for rank, period, _ in (row.split(",") for row in rows)]
    except (OSError, ValueError) as error:
        header, found, expected = "", [], f"{error}; {expected}"
    periods = tuple(period for _, period in found)
    if header != _HEADER or [rank for rank, _ in found] != list(range(workers)) or min(periods) < 1:
        raise ConfigError(
            f"{path}: not the periods of this run: {expected}; remove the file, and the periods "
            "are measured anew"
        )
    return periods
