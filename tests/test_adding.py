"""The lists of docs/adding.md are those of the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SEAMS = {
    "knltrain/assembly/rules.py",
    "knltrain/backends/backend.py",
    "knltrain/exchange/strategies/method.py",
}
"""They tell what is asked for, and name no example."""

SOURCES = ("affinity", "knltrain", "vectorized_ops")
_, *SECTIONS = (ROOT / "docs/adding.md").read_text(encoding="utf-8").split("\n## ")


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def naming(examples: list[str]) -> set[str]:
    """The source files that name one of the examples, as a word or the begin of one."""
    pattern = re.compile("|".join(rf"(?<![a-z]){re.escape(example)}" for example in examples))
    files = (path for package in SOURCES for path in (ROOT / package).rglob("*.py"))
    found = (path for path in files if pattern.search(path.read_text(encoding="utf-8")))
    return {path.relative_to(ROOT).as_posix() for path in found}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_every_file_that_names_the_example_is_listed_and_no_other(section: str) -> None:
    examples, _, listed = section.partition("\nExample: ")[2].partition("\n")
    paths = {path for path in quoted(listed) if path.endswith(".py")}
    assert naming(quoted(examples)) == paths - SEAMS
    assert all((ROOT / path).exists() for path in quoted(section) if "/" in path)


def test_all_that_can_be_added_is_told() -> None:
    told = [section.partition("\n")[0] for section in SECTIONS]
    assert told == [
        "A method",
        "A transport",
        "A network",
        "A data set",
        "A backend",
        "An optimizer",
        "A loss",
        "An operation",
    ]
