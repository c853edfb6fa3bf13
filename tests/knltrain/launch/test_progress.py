"""What stands on a terminal, and in a file."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from knltrain.launch.progress import PlainDisplay, TerminalDisplay, display_on


def _event(step: int, total: int = 100) -> dict[str, Any]:
    return {
        "step": step,
        "total": total,
        "loss": 1 / step,
        "images_per_second": 1234.5,
        "data_share": 0.0,
    }


def test_a_file_gets_about_ten_lines_however_many_events_there_are() -> None:
    stream = io.StringIO()
    with display_on(stream) as display:
        for step in range(1, 101):
            display.progress(_event(step))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "step 1/100  loss 1.0000  1,234 images/s"
    assert [int(line.split()[1].split("/")[0]) for line in lines] == [1, *range(10, 101, 10)]


def _compiling(done: int) -> dict[str, Any]:
    return {"done": done, "total": 40, "seconds_left": 80.4 - 2 * done}


def test_a_file_is_told_how_many_kernels_are_left_to_compile() -> None:
    stream = io.StringIO()
    with PlainDisplay(stream) as display:
        for done in range(1, 41):
            display.compiling(_compiling(done))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "compiling kernels 1/40  39 to go, about 78 s"
    assert [int(line.split()[2].split("/")[0]) for line in lines] == [1, *range(4, 41, 4)]


def test_a_terminal_shows_kernels_and_then_steps() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    with TerminalDisplay(console) as display:
        display.compiling(_compiling(12))
        display._progress.refresh()
        assert "compiling kernels" in stream.getvalue()
        assert "12/40" in stream.getvalue()
        display.progress(_event(3))
    assert "training" in stream.getvalue()
    assert "3/100" in stream.getvalue()


def test_a_file_gets_every_evaluation() -> None:
    stream = io.StringIO()
    with PlainDisplay(stream) as display:
        display.evaluation({"step": 7, "accuracy": 0.9876, "loss": 0.25})
    assert stream.getvalue() == "step 7  test accuracy 98.76%  test loss 0.2500\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("term", "hears_progress", "kind"),
    [
        ("xterm", True, TerminalDisplay),
        ("dumb", True, PlainDisplay),
        ("xterm", False, PlainDisplay),
    ],
)
def test_nothing_is_redrawn_on_a_dumb_terminal_or_where_there_is_no_progress(
    monkeypatch: pytest.MonkeyPatch, term: str, hears_progress: bool, kind: type
) -> None:
    monkeypatch.setenv("TERM", term)
    assert isinstance(display_on(Terminal(), hears_progress), kind)


def test_a_terminal_gets_a_bar_with_all_figures() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    with TerminalDisplay(console) as display:
        display.evaluation({"step": 40, "accuracy": 0.5, "loss": 0.25})
        display.progress(_event(50))
        display.evaluation({"step": 50, "accuracy": 0.9876, "loss": 0.25})
        display.note("a note [stays] as it is")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "a note [stays] as it is" in shown
    last = shown.splitlines()[-1]
    for part in ("training", "50/100", "loss 0.0200", "1,234 images/s", "accuracy 98.76%"):
        assert part in last


def test_waiting_for_data_is_shown_where_it_is_worth_a_word() -> None:
    for share, told in ((0.049, False), (0.05, True), (0.62, True)):
        stream = io.StringIO()
        PlainDisplay(stream).progress({**_event(1, 10), "data_share": share})
        assert (f"waiting for data {share:.0%}" in stream.getvalue()) == told
