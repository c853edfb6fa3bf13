"""What all pictures have in common."""

from __future__ import annotations

from knltrain.picture import GRID_COLOUR, empty_figure, finish


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
