from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from affinity.cli.picture.blocks import Block, Rectangle, Words
from affinity.cli.picture.png import write_png
from affinity.errors import AffinityError

_BLOCK = Block(
    120, 50, (Rectangle(0, 0, 120, 50, "#00ff00"), Words(10, 20, "2 $x$", 11, bold=True))
)


def test_png_has_two_dots_to_a_pixel(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="PNGs are drawn by matplotlib")
    write_png(tmp_path / "machine.png", _BLOCK)
    content = (tmp_path / "machine.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (240, 100)


def test_without_matplotlib_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(AffinityError, match=r"not installed: write an \.svg instead, or pip"):
        write_png(tmp_path / "machine.png", _BLOCK)
    assert not (tmp_path / "machine.png").exists()
