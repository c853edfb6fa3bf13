from __future__ import annotations

from typing import Any

import pytest
from profiles.material import document, measure

from knltrain.errors import ConfigError
from knltrain.profile.comparison import compared, side_of


def text_of(here: dict[str, Any], there: dict[str, Any], most: int | None = None) -> str:
    return compared(side_of(here), side_of(there), most)


def test_stages_are_set_side_by_side_by_their_difference() -> None:
    lines = text_of(document(measure(2.0)), document(measure(1.0)), 2).splitlines()
    rows = [line.split() for line in lines if line.startswith(("conv", "images"))]
    assert [row[:2] for row in rows] == [["conv", "forward"], ["conv", "backward-weights"]]
    assert rows[0][2:] == ["8.667", "4.333", "2.000"]


def test_times_are_of_as_many_images() -> None:
    half = {**document(measure()), "batch_per_worker": 4}
    text = text_of(document(measure(2.0)), half)
    assert "stages and batches of the other one are scaled to 2 times its images" in text
    assert next(line for line in text.splitlines() if "forward" in line).endswith("1.000")


def test_what_differs_besides_is_said_with_the_way_out_and_another_network_refused() -> None:
    here = document()
    text = text_of(here, {**here, "processor": "KNL", "workers": 1, "precision": "bfloat16"})
    assert "note: another processor: unknown here, KNL there; profile both on one machine" in text
    assert "note: another workers: 2 here, 1 there; profile one of them anew with --set" in text
    assert "note: another precision: unknown here, bfloat16 there" in text
    assert "another method" not in text
    with pytest.raises(ConfigError, match="a profile of small and one of large: expected two"):
        text_of(here, {**here, "network": {"name": "large"}})


@pytest.mark.parametrize("name", ["knltrain", "torch", "numba"])
def test_other_versions_are_named(name: str) -> None:
    here = {**document(), "knltrain": "1.0", "versions": {"torch": "2.13", "numba": "0.61"}}
    there = {**here, "versions": {**here["versions"], name: "9.9"}}
    if name == "knltrain":
        there = {**here, name: "9.9"}
    (note,) = (line for line in text_of(here, there).splitlines() if "another" in line)
    assert note.startswith(f"note: another {name}: ")
    assert note.endswith(
        "9.9 there; profile both by the same versions, or take the difference for theirs"
    )


def test_what_one_of_them_has_not_is_no_zero() -> None:
    here = document()
    for there in ({**here, "stages": []}, {**here, "stages": here["stages"][:1]}):
        lines = [line.split() for line in text_of(here, there).splitlines()]
        assert ["conv", "forward", "4.333"] in lines
        assert ["conv", "forward", "4.333"] in [
            line.split() for line in text_of(there, here).splitlines()
        ]


@pytest.mark.parametrize("name", ["batch_per_worker", "batches_per_step"])
@pytest.mark.parametrize("images", [0, None, "many", float("inf")])
def test_a_damaged_profile_has_no_side(images: object, name: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        side_of({**document(), name: images})
