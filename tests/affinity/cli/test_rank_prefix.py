from __future__ import annotations

import os
import selectors
from collections.abc import Iterator

import pytest

from affinity.cli.rank_prefix import TaggedOutput


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as selector:
        yield selector


def _react(selector: selectors.BaseSelector) -> None:
    for key, _ in selector.select(0):
        key.data()


def test_parts_of_lines_wait_for_their_end(
    selector: selectors.BaseSelector, capfd: pytest.CaptureFixture[str]
) -> None:
    out, err = TaggedOutput(selector).pipes(7)
    os.write(out, b"half ")
    _react(selector)
    assert capfd.readouterr().out == ""
    os.write(out, b"line\nnext")
    os.write(err, b"wrong\n")
    _react(selector)
    assert capfd.readouterr() == ("[7] half line\n", "[7] wrong\n")
    os.close(out)
    os.close(err)
    _react(selector)
    assert capfd.readouterr() == ("[7] next\n", "")
    assert not selector.get_map()


def test_what_is_left_of_ended_ranks_is_handed_on_though_others_hold_their_pipes(
    selector: selectors.BaseSelector, capfd: pytest.CaptureFixture[str]
) -> None:
    output = TaggedOutput(selector)
    out, err = output.pipes(0)
    os.write(out, b"last\nwords")
    output.drain()
    assert capfd.readouterr().out == "[0] last\n[0] words\n"
    assert not selector.get_map()
    os.close(out)
    os.close(err)


def test_bytes_that_are_no_text_pass_unchanged(
    selector: selectors.BaseSelector, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    output = TaggedOutput(selector)
    ends = output.pipes(1)
    os.write(ends[0], b"\xff\x00\n")
    output.drain()
    assert capfdbinary.readouterr().out == b"[1] \xff\x00\n"
    for end in ends:
        os.close(end)
