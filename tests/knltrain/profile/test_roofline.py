from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from profiles.material import document, measure

from knltrain.profile import roofline
from knltrain.profile.roofline import ceilings, dots, draw_roofline


def test_stages_the_loss_and_the_update_have_a_dot() -> None:
    told = document(measure())
    told["stages"][0].update(direction="loss", flops=400)
    found = {each.direction: each for each in dots(told)}
    assert list(found) == ["loss", "forward", "backward_weights", "update"]
    forward = found["forward"]
    assert forward.intensities == pytest.approx((40.0, 4_000_000 / 120_000))
    assert forward.flops_per_second == pytest.approx(4_000_000 / forward.seconds)
    assert found["update"].intensities == pytest.approx((0.2,))
    assert found["update"].flops_per_second == pytest.approx(4_000 / 1e-3)


def test_over_a_link_an_exchange_has_one_too() -> None:
    own = measure()
    linked = own._replace(figures=own.figures._replace(link_bytes_per_second=1e8))
    (exchange,) = (each for each in dots(document(linked)) if each.direction == "exchange")
    assert exchange.intensities == (2_000,)
    assert exchange.flops_per_second == pytest.approx(18_000_000 / 1e-3)


def test_ceilings_are_means_over_the_workers_and_of_the_run_s_precision() -> None:
    machine = [
        {
            "sgemm_flops_per_second": 1e9, "product_flops_per_second": 3e9,
            "copy_bytes_per_second": 3e8, "link_bytes_per_second": 1e7,
        },
        {"sgemm_flops_per_second": 1e9, "copy_bytes_per_second": 1e8},
    ]  # fmt: skip
    assert ceilings(machine) == (2e9, 2e8, 1e7)
    assert ceilings(machine[1:]) == (1e9, 1e8, None)


@pytest.mark.parametrize("link", [0.0, 1e8])
def test_marks_lie_where_stages_are_and_ceilings_above(
    link: float, tmp_path: Path, saved: list[Figure]
) -> None:
    own = measure()
    told = document(own._replace(figures=own.figures._replace(link_bytes_per_second=link)))
    draw_roofline(told, tmp_path / "roofline.png")
    assert (tmp_path / "roofline.png").read_bytes()[:4] == b"\x89PNG"
    (figure,) = saved
    (axes,) = figure.axes
    marks = [each.get_offsets()[0] for each in axes.collections]
    drawn = [(each.intensities[-1], each.flops_per_second / 1e9) for each in dots(told)]
    np.testing.assert_allclose(marks, drawn)
    lines = [each for each in axes.lines if each.get_color() == "black" and len(each.get_xdata())]
    ceiling = next(
        each for each in lines if each.get_linestyle() == "-" and each.get_alpha() is None
    )
    heights = list(ceiling.get_ydata())
    assert heights[-1] == max(heights) == pytest.approx(10.0)  # the peak, in GFLOP/s
    assert ("link" in axes.get_title()) is (link > 0)
    assert any(each.get_linestyle() == "--" for each in lines) is (link > 0)


def test_ceilings_are_those_of_the_workers_that_stages_are_means_of() -> None:
    told = document(measure(), measure())
    assert len(roofline._like_first(told)) == 2
    told["stages"][0]["by_rank"][1] = None
    assert roofline._like_first(told) == told["machine"][:1]
    told["stages"][0]["by_rank"] = None  # of many workers
    assert roofline._like_first(told) == told["machine"]
