"""Braces stand for names as they do in a shell."""

from __future__ import annotations

import pytest

from knltrain.data.readers.braces import expanded
from knltrain.errors import DataError


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("t-{008..011}.tar", ["t-008.tar", "t-009.tar", "t-010.tar", "t-011.tar"]),
        ("{9..10}.tar", ["9.tar", "10.tar"]),
        ("{a,b}-{0..1}.tar", ["a-0.tar", "a-1.tar", "b-0.tar", "b-1.tar"]),
        ("{a,}*.tar", ["a*.tar", "*.tar"]),
    ],
)
def test_ranges_and_lists_become_names(pattern: str, names: list[str]) -> None:
    assert expanded(pattern) == names


@pytest.mark.parametrize("pattern", ["{5..3}.tar", "{a}.tar", "a{.tar", "{}", "{0..99999999999}"])
def test_other_braces_are_refused_with_an_example(pattern: str) -> None:
    with pytest.raises(DataError, match=r"expected braces as in train-\{000..004\}"):
        expanded(pattern)


def test_too_many_names_are_refused_before_they_are_made() -> None:
    with pytest.raises(DataError, match="more than 100,000 names"):
        expanded("{0..999}{0..999}")
