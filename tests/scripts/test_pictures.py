"""The pictures of the documentation are drawn, and those that are kept are up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/pictures"
KEPT = ROOT / "docs/pictures"


def pictures(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words], capture_output=True, text=True, cwd=ROOT
    )


def labels(picture: str) -> list[str]:
    """The words of a picture; matplotlib writes them as comments where text is paths."""
    return re.findall(r"<!-- (.*?) -->", picture)


def drawn_by(picture: str) -> list[str]:
    return re.findall(r"Matplotlib v[\d.]+", picture)


def test_the_architecture_is_drawn_as_it_is_kept(tmp_path: Path) -> None:
    done = pictures("--only", "architecture", "--folder", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "new").iterdir()
    assert done.stdout == f"pictures: {path}\n"
    drawn, kept = path.read_text(), (KEPT / path.name).read_text()
    ElementTree.fromstring(drawn)
    assert {"node 0", "worker 2", "center, stripe 1", "node 1", "affinity"} <= set(labels(drawn))
    assert labels(drawn) == labels(kept)
    if drawn_by(drawn) == drawn_by(kept):  # others may draw the same a bit differently
        assert drawn == kept


def test_what_is_kept_is_xml_with_words_and_without_a_date() -> None:
    for name, word in (("architecture.svg", "worker"), ("run.svg", "time of a step (ms)")):
        kept = (KEPT / name).read_text()
        ElementTree.fromstring(kept)
        assert word in labels(kept)
        assert "dc:date" not in kept


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--run", "{}/no-run"], "pictures: error: {}/no-run: no such folder: expected that of a"),
        (["--run", "{}"], "pictures: error: {}/result.json: no such file: the run has not come"),
        (["--only", "architecture", "--run", "{}"], "--run: not with --only architecture"),
        (["--only", "architecture", "--folder", "{}/a-file"], "{}/a-file: File exists"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_line(
    tmp_path: Path, words: list[str], told: str
) -> None:
    (tmp_path / "a-file").touch()
    words = ["--folder", str(tmp_path / "new"), *(word.format(tmp_path) for word in words)]
    done = pictures(*words)
    assert done.returncode == 2
    assert told.format(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("new/*"))
