"""Where the report of a bench goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from knltrain.cli.bench.report import check_files, decimals, listed, numbers, parted
from knltrain.errors import ConfigError

ExitCode = Callable[..., int | str | None]


@pytest.mark.parametrize(
    ("path", "message"),
    [("missing/report.json", "there is no folder"), (".", "is a directory")],
)
def test_a_bench_report_that_cannot_be_written_is_refused_before_measuring(
    exit_code: ExitCode,
    path: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = pytest.importorskip("knltrain.bench.step.benchmark")
    monkeypatch.setattr(step, "run_step_benchmark", lambda *_: pytest.fail("it measured"))
    assert exit_code("bench", "step", "--json", str(tmp_path / path)) == 2
    assert message in capsys.readouterr().err


def test_a_bench_is_shown_even_if_its_report_can_no_longer_be_written(
    exit_code: ExitCode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = pytest.importorskip("knltrain.bench.step.benchmark")
    path = tmp_path / "report.json"
    monkeypatch.setattr(step, "run_step_benchmark", lambda *_: path.mkdir() or {})
    monkeypatch.setattr("knltrain.bench.step.report.format_table", lambda _: "table")
    assert exit_code("bench", "step", "--json", str(path)) == 1
    shown = capsys.readouterr()
    assert shown.out == "table\n"
    assert f"Could not open file '{path}': Is a directory" in shown.err


def test_a_picture_s_name_that_tells_no_format_is_refused(tmp_path: Path) -> None:
    check_files(None, tmp_path / "speed.svg")
    with pytest.raises(ConfigError, match=r"speed\.jpg: expected .* \.png, \.svg, \.pdf"):
        check_files(None, tmp_path / "speed.jpg")


def test_lists_have_words_between_commas() -> None:
    assert parted(" a,, b,a,") == ("a", "b", "a")
    assert listed("--names", "a, b") == ("a", "b")
    assert numbers("--ranks", "2,1") == [2, 1]
    assert decimals("--gbits", "0.5,2") == [0.5, 2.0]
    assert listed("--names", "") == ()


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        (listed, "a,b,a", "a is there twice: expected it once"),
        (numbers, "2,4,02", "2 is there twice"),
        (decimals, "2,2.0", "2.0 is there twice"),
        (numbers, "2.5", "'2.5': expected whole numbers with commas between them"),
        (decimals, "2,nan", "'2,nan': expected numbers with commas between them"),
        (decimals, "inf", "'inf': expected numbers"),
        (numbers, "1" * 400, "expected whole numbers"),
    ],
)
def test_other_lists_are_refused(read: Callable[[str, str], object], text: str, told: str) -> None:
    with pytest.raises(click.BadParameter, match=told) as raised:
        read("--given", text)
    assert raised.value.param_hint == "--given"
