from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from affinity.cli.options.running import add_run_options

Parsed = Callable[..., argparse.Namespace]
Refusal = Callable[..., str]


def test_nothing_typed_starts_all_ranks_untagged(parsed: Parsed) -> None:
    assert vars(parsed(add_run_options)) == {
        "rank": None,
        "env": [],
        "preload": [],
        "pin_threads": False,
        "tag": False,
        "report_bindings": False,
        "grace_seconds": 10.0,
    }


def test_what_is_typed_reaches_the_start(parsed: Parsed) -> None:
    words = "--rank 3 --env A=b=c --env B= --preload tcmalloc --grace-seconds 0.5"
    options = parsed(add_run_options, *words.split())
    assert (options.rank, options.env) == (3, [("A", "b=c"), ("B", "")])
    assert (options.preload, options.grace_seconds) == (["tcmalloc"], 0.5)
    assert parsed(add_run_options, "--rank", "auto").rank == "auto"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--rank", "first"), "'first' is neither a rank, 0 or more, nor auto"),
        (("--rank", "-1"), "'-1' is neither a rank, 0 or more, nor auto"),
        (("--env", "X"), "'X' is not of the form NAME=VALUE"),
        (("--grace-seconds", "soon"), "'soon' is not a number of seconds, 0 or more"),
        (("--grace-seconds", "nan"), "'nan' is not a number of seconds, 0 or more"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_was_expected(
    words: tuple[str, str], reason: str, refusal: Refusal
) -> None:
    assert reason in refusal(add_run_options, *words)
