"""Parses option values; errors say what was expected."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from affinity.errors import AffinityError
from affinity.numbers import whole_number

_T = TypeVar("_T")


def typed(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """`parse` for argparse, which shows the messages of its own kind of error only."""

    def parsed(text: str) -> _T:
        try:
            return parse(text)
        except AffinityError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def count(text: str) -> int:
    """As `whole_number`, for argparse."""
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return number


def file_name(text: str) -> Path:
    """A path that is not empty: an unset variable would otherwise mean the current folder.

    A leading ~ is the home folder, also where a shell leaves it, as in --picture=~/a.svg.
    """
    if not text:
        raise argparse.ArgumentTypeError("'' is not the name of a file")
    try:
        return Path(text).expanduser() if text.startswith("~") else Path(text)
    except RuntimeError:
        raise argparse.ArgumentTypeError(
            f"'{text}': no home folder is known for it; expected a path in full, or ./~ for a file "
            "that is called so"
        ) from None
