"""What all pictures have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.errors import RunFolderError
from knltrain.picture import GRID_COLOUR, empty_figure, finish, save


def test_a_figure_has_its_size_and_finished_axes_a_grid_and_an_open_frame() -> None:
    from matplotlib.colors import to_hex

    figure = empty_figure(8.0, 5.0)
    assert list(figure.get_size_inches()) == [8.0, 5.0]
    axes = figure.subplots()
    finish(axes)
    shown = [side for side, spine in axes.spines.items() if spine.get_visible()]
    assert sorted(shown) == ["bottom", "left"]
    grid = axes.get_xgridlines()[0]
    assert grid.get_visible()
    assert to_hex(grid.get_color()) == GRID_COLOUR


@pytest.mark.parametrize(
    ("name", "begin"),
    [("a.svg", b"<?xml"), ("a.pdf", b"%PDF"), ("a.png", b"\x89PNG"), ("a", b"\x89PNG")],
)
def test_a_picture_is_what_its_name_says(tmp_path: Path, name: str, begin: bytes) -> None:
    save(empty_figure(1.0, 1.0), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begin)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_picture_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"a\.svg: cannot be written"):
        save(empty_figure(1.0, 1.0), tmp_path / "missing" / "a.svg")
