from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from affinity.cli.options.machine import add_machine_options, add_output_options
from affinity.machine.memory_kind import HbmWord

Parsed = Callable[..., argparse.Namespace]
Refusal = Callable[..., str]


def test_users_word_on_hbm_is_read(parsed: Parsed) -> None:
    assert parsed(add_machine_options, "--hbm", "8@0,9").hbm == (HbmWord(8, 0), HbmWord(9))


def test_hbm_that_is_no_node_is_told_with_what_was_expected(refusal: Refusal) -> None:
    assert "--hbm is 'two'" in refusal(add_machine_options, "--hbm", "two")


def test_words_about_this_machine_take_no_file(refusal: Refusal) -> None:
    def add_options(parser: argparse.ArgumentParser) -> None:
        add_machine_options(parser, files=False)

    assert "--machine" in refusal(add_options, "--machine", "machine.tgz")


def test_output_is_text_unless_asked_otherwise(parsed: Parsed) -> None:
    assert vars(parsed(add_output_options)) == {"json": False, "picture": None}
    assert parsed(add_output_options, "--json").json is True
    assert parsed(add_output_options, "--picture", "a.svg").picture == Path("a.svg")


def test_one_output_excludes_the_other(refusal: Refusal) -> None:
    assert "not allowed" in refusal(add_output_options, "--json", "--picture", "a.svg")
