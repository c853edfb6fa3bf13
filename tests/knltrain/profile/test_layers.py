from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from profiles.material import document, measure

from knltrain.profile.layers import draw_layers, layer_seconds


def test_a_layer_has_its_directions_its_update_and_what_is_exposed_of_its_exchange() -> None:
    """The update is shared out by bytes, 3 to 1, and so is what is exposed of the only part."""
    found = layer_seconds(document(measure(), measure()))
    assert list(found) == ["conv", "bn"]  # the load and the exchange are of no layer
    scale = 6.5 / 6
    assert found["conv"] == pytest.approx(
        {
            "forward": 4e-3 * scale,
            "backward_weights": 3e-3 * scale,
            "update": 0.75e-3,
            "exposed exchange": 0.375e-3,
        }
    )
    assert found["bn"] == pytest.approx({"update": 0.25e-3, "exposed exchange": 0.125e-3})


def test_what_is_fused_with_a_stage_is_the_stage_s() -> None:
    told = document()
    told["stages"][1]["layers"] = ["conv", "bn"]
    found = layer_seconds(told)
    assert list(found) == ["conv"]
    assert found["conv"]["update"] == pytest.approx(1e-3)
    assert layer_seconds({**told, "updates": []})["conv"]["exposed exchange"] == pytest.approx(5e-4)


def test_an_exchange_that_nobody_timed_has_no_part() -> None:
    told = document(measure(), measure())
    told["exchanges"][0]["exposed_seconds"] = None
    assert all("exposed exchange" not in each for each in layer_seconds(told).values())


def test_bars_are_stacked_without_gaps(saved: list[Figure], tmp_path: Path) -> None:
    draw_layers(document(), tmp_path / "layers.png")
    assert (tmp_path / "layers.png").read_bytes()[:4] == b"\x89PNG"
    (figure,) = saved
    (axes,) = figure.axes
    assert [each.get_text() for each in axes.get_yticklabels()] == ["conv", "bn"]
    ends = [0.0, 0.0]
    for bars in axes.containers:
        for place, bar in enumerate(bars):
            assert bar.get_x() == pytest.approx(ends[place])
            ends[place] += bar.get_width()
    whole = [1e3 * sum(own.values()) for own in layer_seconds(document()).values()]
    assert ends == pytest.approx(whole)


def test_of_many_layers_the_longest_are_drawn(saved: list[Figure], tmp_path: Path) -> None:
    told = document()
    stage = told["stages"][1]
    told["stages"] = [
        {**stage, "name": f"conv{number}", "layers": [], "seconds": {"mean": 1e-3 * (number + 1)}}
        for number in range(50)
    ]
    draw_layers({**told, "updates": [], "exchanges": []}, tmp_path / "layers.png")
    names = [each.get_text() for each in saved[0].axes[0].get_yticklabels()]
    assert names == [*(f"conv{number}" for number in range(10, 50)), "10 others"]
    (bars,) = saved[0].axes[0].containers
    assert bars[-1].get_width() == pytest.approx(sum(range(1, 11)))
