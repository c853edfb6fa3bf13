from __future__ import annotations

import pytest
from profiles.material import document, measure

from knltrain.profile.kinds import by_kind


def test_stages_of_a_kind_are_summed_up() -> None:
    movement, convolution, exchange = by_kind(document(measure()))
    assert [each["operation"] for each in (movement, convolution, exchange)] == [
        "data movement",
        "convolution 3x3",
        "exchange",
    ]
    seconds = 7e-3 * 6.5 / 6
    assert convolution["seconds"] == pytest.approx(seconds)
    assert convolution["gflops"] == pytest.approx(18.1e6 / seconds / 1e9)
    assert convolution["arithmetic_intensity"] == pytest.approx(18.1e6 / 200_000)
    assert convolution["efficiency"] == pytest.approx((4e-4 + 9e-4) / seconds)
    assert movement["gflops"] is exchange["efficiency"] is None
