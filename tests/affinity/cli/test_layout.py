from __future__ import annotations

import pytest

from affinity.cli.layout import bullets, columns, page, paragraph, section, showable, table, told_of


def test_cells_line_up_and_empty_columns_vanish() -> None:
    rows = [["a", "", "10"], ["bbb", "", "9"]]
    assert columns(rows, right=(2,)) == ["a    10", "bbb   9"]


def test_numbers_end_below_each_other_and_names_begin_so() -> None:
    rows = [("", "times", "version"), ("ours", "1.00", "a"), ("another", "12.50", "")]
    assert columns(rows, right=(1,)) == [
        "         times  version",
        "ours      1.00  a",
        "another  12.50",
    ]


def test_a_row_of_other_length_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        columns([("a", "b"), ("c",)])


def test_column_without_cells_loses_its_head() -> None:
    lines = table(("rank", "data", "cpus"), [["0", "", "0-3"], ["1", "", "4-7"]]).splitlines()
    assert lines == ["rank  cpus", "──────────", "0     0-3", "1     4-7"]


def test_long_text_wraps_behind_its_lead() -> None:
    text = paragraph("one two three four", "* ", width=10)
    assert text == "* one two\n  three\n  four"


def test_text_is_never_broken_inside_a_word_or_path() -> None:
    path = "/sys/devices/system/node/node0-is-long"
    assert paragraph(f"see {path}", width=20).splitlines() == ["see", path]


def test_section_without_lines_is_left_out() -> None:
    assert section("Why", []) == ""
    assert page([section("Why", []), section("Cores", ["a\nb"])]) == "Cores\n  a\n  b"


def test_note_that_is_given_twice_is_said_once() -> None:
    assert bullets(["a", "b", "a"]) == ["* a", "* b"]


def test_what_holds_for_several_is_told_once_and_each_group_named_once() -> None:
    told = [(0, "DRAM"), (1, "DRAM"), (0, "fast"), (2, ""), (1, "fast"), (3, "HBM")]
    assert told_of("node", told) == ["nodes 0-1  DRAM", "           fast", "node 3     HBM"]


def test_terminal_without_our_letters_gets_plain_ones() -> None:
    assert showable("├─ HBM 4 → DRAM", "utf-8") == "├─ HBM 4 → DRAM"
    assert showable("├─ HBM 4 → DRAM", "ascii") == "|- HBM 4 > DRAM"
    assert showable("│ é", "ascii") == "| \\xe9"
    assert showable("│ é α", "latin-1") == "| é \\u03b1"
    assert showable("└─", None) == "`-"
