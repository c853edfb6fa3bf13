"""The report as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from knltrain.bench.methods.picture import draw_methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_picture_has_a_curve_and_a_bar_for_everyone_who_came_through(
    report: dict[str, Any], tmp_path: Path, saved: list[Figure]
) -> None:
    path = tmp_path / "methods.png"
    draw_methods(report, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    above, below = saved[0].axes
    names = ["one worker", "sync_easgd", "original_easgd"]
    curves = {line.get_label(): line for line in above.lines}
    assert list(curves)[: len(names)] == names
    assert list(curves["sync_easgd"].get_xdata()) == [5.0, 10.0]  # of the last round
    assert list(curves["sync_easgd"].get_ydata()) == [98.0, 99.0]
    assert [label.get_text() for label in below.get_yticklabels()] == names
    ours = [bars[1].get_width() for bars in below.containers]
    assert ours == [1.0, 1.0, 1.0, 1.5, 1.0, 1.0, 1.0]
    assert [bars[1].get_x() for bars in below.containers] == [0.0, 1.0, 2.0, 3.0, 4.5, 5.5, 6.5]
