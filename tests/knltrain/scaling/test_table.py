"""The table of a report on scaling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from knltrain.scaling.report import scaling_of
from knltrain.scaling.table import told


def test_a_row_has_one_number_in_each_cell(runs: list[Path]) -> None:
    lines = told(scaling_of(runs)).splitlines()
    assert lines[0] == "weak scaling"
    assert lines[-2].split() == ["one", "1", "1", "32", "100.0", "100.0", "20.0", "12.5"]
    assert lines[-1].split()[:7] == ["two", "2", "2", "64", "150.0", "one", "75.0"]


def test_accuracies_are_told_where_there_are_any(run: Callable[..., Path]) -> None:
    folders = [run("one", 1, [1.0], 32, test_accuracy=0.9), run("two", 2, [2.0], 64)]
    assert told(scaling_of(folders)).splitlines()[-2].split()[-2:] == ["90.0", "12.5"]


def test_notes_are_below(run: Callable[..., Path]) -> None:
    lines = told(scaling_of([run("one", 1, [1.0], 32, threads=2), run("two", 2, [2.0], 64)]))
    assert lines.splitlines()[-1].startswith("note: runs differ in threads of a worker: 2 (one)")
