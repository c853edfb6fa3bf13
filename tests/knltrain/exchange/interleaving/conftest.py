"""Scenarios for all whose interleavings are explored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

sys.path.append(str(Path(__file__).parents[1]))  # modules beside tests are not importable otherwise

from interleaving.boxes import OnBox
from interleaving.segments import OnSegment
from interleaving.toys import OnWords

MakeOnSegment: TypeAlias = Callable[..., OnSegment]
MakeOnBox: TypeAlias = Callable[..., OnBox]
MakeOnWords: TypeAlias = Callable[..., OnWords]


@pytest.fixture
def on_segment(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeOnSegment]:
    """Make workers of a segment: see `OnSegment`."""
    made: list[OnSegment] = []

    def make(*arguments: object, **options: object) -> OnSegment:
        made.append(OnSegment(monkeypatch, *arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for scenario in made:
        scenario.close()


@pytest.fixture
def on_box(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeOnBox]:
    """Make workers of a Soft Memory Box: see `OnBox`."""
    made: list[OnBox] = []

    def make(*arguments: object, kind: type[OnBox] = OnBox, **options: object) -> OnBox:
        made.append(kind(monkeypatch, *arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for scenario in made:
        scenario.close()


@pytest.fixture
def on_words() -> Iterator[MakeOnWords]:
    """Make toy programs on words: see `OnWords`."""
    made: list[OnWords] = []

    def make(*programs: object) -> OnWords:
        made.append(OnWords(*programs))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for scenario in made:
        scenario.close()
