"""Intensities by kind of operation, networks side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from knltrain.bench.cnn.picture import draw_intensities
from knltrain.bench.cnn.summary import kind_rows, step_row

from .test_summary import PROFILE, stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_a_kind_has_a_bar_for_each_network_that_has_it(tmp_path: Path, saved: list[Figure]) -> None:
    deep = {**PROFILE, "stages": [stage("dense", "forward", 0.01, 200, 10, "fc")]}
    report = {
        "batch_per_worker": 8,
        "machine": {"model": "a machine"},
        "rows": [
            step_row(name, ground, profile)
            for name, profile in (("small", PROFILE), ("deep", deep))
            for ground in ("1 worker", "2 workers")
        ],
        "kinds": [
            row
            for name, profile in (("small", PROFILE), ("deep", deep))
            for row in kind_rows(name, "1 worker", profile)
        ],
    }
    draw_intensities(report, tmp_path / "kinds.png")
    assert (tmp_path / "kinds.png").read_bytes().startswith(b"\x89PNG")
    (axes,) = saved[0].axes
    assert [each.get_text() for each in axes.get_yticklabels()] == ["convolution 3x3", "dense"]
    drawn = {
        bars.get_label(): [(bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in bars]
        for bars in axes.containers
    }
    (first, dense), (other,) = drawn["small"], drawn["deep"]
    assert (first[1], dense[1], other[1]) == (60.0, 60.0, 20.0)
    assert (round(first[0]), round(dense[0]), round(other[0])) == (0, 1, 1)
    assert other[0] < dense[0]  # side by side
    (line,) = axes.lines
    assert line.get_xdata()[0] == pytest.approx(2 / 3)
