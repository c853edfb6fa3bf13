from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from affinity.cli.options.reading import count, file_name, typed
from affinity.cpulist import parse_cpulist


def test_count_that_is_none_is_told_with_what_was_expected() -> None:
    assert count("12") == 12
    with pytest.raises(argparse.ArgumentTypeError, match="'-1' is not a whole number, 0 or more"):
        count("-1")


def test_own_errors_become_those_that_argparse_shows() -> None:
    assert typed(parse_cpulist)("0-1") == (0, 1)
    with pytest.raises(argparse.ArgumentTypeError, match="bad cpu list 'x'"):
        typed(parse_cpulist)("x")


def test_empty_name_is_not_this_folder() -> None:
    assert file_name("a b") == Path("a b")
    with pytest.raises(argparse.ArgumentTypeError, match="'' is not the name of a file"):
        file_name("")


def test_a_home_folder_is_written_with_a_tilde(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert file_name("~/machine.xml") == Path("/home/me/machine.xml")
    assert file_name("./~") == Path("~")
    with pytest.raises(argparse.ArgumentTypeError, match="'~nobody-at-all/a': no home folder"):
        file_name("~nobody-at-all/a")
