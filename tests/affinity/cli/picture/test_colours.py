from __future__ import annotations

import re

from affinity.cli.picture.colours import INK, PAPER, darker, ink_on, role_colour, worker_colour
from affinity.cli.roles import Role


def test_each_of_64_workers_has_a_colour_of_its_own() -> None:
    colours = [worker_colour(rank) for rank in range(64)]
    assert len(set(colours)) == 64
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_helping_cores_have_a_light_shade_of_their_workers_colour() -> None:
    assert role_colour(Role("compute", 0)) == "#4e79a7"
    assert role_colour(Role("data", 0)) == role_colour(Role("communication", 0)) == "#c1d0e0"


def test_cores_of_nobody_look_alike_whoever_keeps_them_free() -> None:
    uses = [role_colour(Role("system")), role_colour(Role("idle")), role_colour(Role("forbidden"))]
    assert uses == ["#4b5563", "#ffffff", "#e5e7eb"]


def test_letters_can_be_read_on_their_ground() -> None:
    assert (ink_on("#ffffff"), ink_on("#edc948")) == (INK, INK)
    assert (ink_on("#000000"), ink_on("#4e79a7")) == (PAPER, PAPER)


def test_darker_shade_is_darker() -> None:
    assert darker("#ffffff") == "#b2b2b2"
