"""The picture of a report on scaling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knltrain.scaling import picture
from knltrain.scaling.report import scaling_of

Run = Callable[..., Path]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved."""
    found: list[Any] = []
    save = picture.save

    def keep(figure: Any, path: Path) -> None:
        found.append(figure)
        save(figure, path)

    monkeypatch.setattr(picture, "save", keep)
    return found


def test_efficiency_and_speed_are_drawn(runs: list[Path], tmp_path: Path, drawn: list[Any]) -> None:
    picture.draw_scaling(scaling_of(runs), tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes()[:4] == b"\x89PNG"
    left, right = drawn[0].axes
    assert left.get_ylabel() == "efficiency, %"
    ideal, measured = (line.get_ydata() for line in right.lines)
    assert list(ideal) == pytest.approx([100.0, 200.0])
    assert list(measured) == pytest.approx([100.0, 150.0])


def test_accuracy_is_drawn_over_seconds_and_each_batch_has_a_line(
    run: Run, tmp_path: Path, drawn: list[Any]
) -> None:
    folders = [
        run("a", 1, [100.0], 32, curve=[(1, 0.5), (2, 0.6)]), run("b", 1, [120.0], 64),
        run("c", 2, [180.0], 64), run("d", 2, [200.0], 128, curve=[(1, 0.5)]),
    ]  # fmt: skip
    picture.draw_scaling(scaling_of(folders), tmp_path / "scaling.svg")
    _, right, accuracy = drawn[0].axes
    assert len(right.lines) == 4
    (told,) = accuracy.lines
    assert (told.get_label(), list(told.get_ydata())) == ("a", [50.0, 60.0])
