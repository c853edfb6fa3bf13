"""Names stay in a folder, or lead out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.data.readers.within import Within


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        *(("a.jpg", True), ("d/../a.jpg", True), ("d/inside", True), ("not/there", True)),
        *(("../x/a.jpg", False), ("/etc/passwd", False), ("d/outside", False), ("d/up/x", False)),
        ("..", False),
    ],
)
def test_names_are_looked_at_with_links_followed(tmp_path: Path, name: str, stays: bool) -> None:
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d/inside").symlink_to("../a.jpg")
    (root / "d/outside").symlink_to("/etc/passwd")
    (root / "d/up").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(root)
    assert Within(root).has(name) == Within(tmp_path / "linked").has(name) == stays
    assert Within(root).has(str(root / "a.jpg"))


def test_a_name_that_no_file_can_have_leads_nowhere(tmp_path: Path) -> None:
    assert Within(tmp_path).has("a" * 300)
