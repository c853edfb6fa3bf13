from __future__ import annotations

from pathlib import Path

from profiles.material import document

from knltrain.profile.roofline import draw_roofline


def test_a_roofline_is_drawn(tmp_path: Path) -> None:
    draw_roofline(document(), tmp_path / "roofline.png")
    assert (tmp_path / "roofline.png").read_bytes()[:4] == b"\x89PNG"
