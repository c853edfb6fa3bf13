from __future__ import annotations

import pytest
from profiles.material import document, measure

from knltrain.errors import ConfigError
from knltrain.profile.comparison import compared


def test_stages_are_set_side_by_side_by_their_difference() -> None:
    lines = compared(document(measure(2.0)), document(measure(1.0)), 2).splitlines()
    rows = [line.split() for line in lines if line.startswith(("conv", "images"))]
    assert [row[:2] for row in rows] == [["conv", "forward"], ["conv", "backward-weights"]]
    assert rows[0][2:] == ["8.667", "4.333", "2.000"]


def test_times_are_of_as_many_images() -> None:
    half = {**document(measure()), "batch_per_worker": 4}
    text = compared(document(measure(2.0)), half)
    assert "stages and batches of the other one are scaled to 2 times its images" in text
    assert next(line for line in text.splitlines() if "forward" in line).endswith("1.000")


def test_what_differs_besides_is_said_and_another_network_refused() -> None:
    here = document()
    text = compared(here, {**here, "processor": "KNL", "workers": 1})
    assert "note: another processor: None here, KNL there" in text
    assert "note: another workers" in text
    with pytest.raises(ConfigError, match="a profile of small and one of large: expected two"):
        compared(here, {**here, "network": {"name": "large"}})
