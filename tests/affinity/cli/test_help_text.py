from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from affinity.cli.help_text import OTHER_TOOLS
from affinity.cli.options.machine import add_machine_options
from affinity.cli.options.request import add_request_options
from affinity.cli.options.running import add_run_options

_MANUAL = Path(__file__).parents[3] / "docs" / "affinity.md"


def _typed_in_help() -> list[str]:
    rows = (re.split(r" {2,}", line.strip()) for line in OTHER_TOOLS.splitlines()[1:])
    return [row[1] for row in rows if not row[1].startswith("(")]


def _typed_in_manual() -> list[str]:
    text = _MANUAL.read_text(encoding="utf-8")
    table = text[text.index("| you know | type this here |") :]
    rows = table[: table.index("\n\n")].splitlines()[2:]
    return [typed for row in rows if (typed := row.split("|")[2].strip(" `")) != "show"]


@pytest.mark.parametrize("typed", [*_typed_in_help(), *_typed_in_manual()])
def test_what_users_of_other_tools_are_told_to_type_is_understood(typed: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    add_machine_options(parser)
    add_request_options(parser)
    if typed.startswith("run "):
        add_run_options(parser)
    assert parser.parse_known_args(typed.removeprefix("run ").split())[1] == []
