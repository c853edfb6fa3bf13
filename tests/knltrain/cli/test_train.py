"""The words of a training, up to the point where it would start."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.config import RunConfig
from knltrain.errors import IncompleteRun, KnltrainError, RunFolderError
from knltrain.launch import training

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


def test_options_override_the_file_and_each_other(
    invoke: Invoke, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RunConfig] = []

    def refuse(config: RunConfig) -> Path:
        seen.append(config)
        raise KnltrainError("enough")

    monkeypatch.setattr(training, "train", refuse)
    options = ("--workers", "4", "--name", "007", "--set", "train.steps=3", "--set", "workers=8")
    invoke("train", str(config_file), *options)
    assert (seen[0].workers, seen[0].name, seen[0].train.steps) == (4, "007", 3)


@pytest.mark.parametrize("option", ["--workers", "--name"])
def test_an_empty_word_is_refused(
    exit_code: ExitCode, config_file: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert exit_code("train", str(config_file), option, "") == 2
    assert f"{option.removeprefix('--')} = '': expected" in capsys.readouterr().err


def test_too_many_workers_are_refused_with_the_way_out(
    exit_code: ExitCode, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--workers", "4096", "--set", "train.batch=4096")
    assert exit_code("train", str(config_file), *options) == 2
    assert "4096 workers asked for" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("run.toml", "--resume", "."),
        ("--resume", ".", "--workers", "2"),
        ("--resume", ".", "--name", "other"),
        ("run.toml", "--accept-other-data"),
    ],
)
def test_contradictory_words_are_refused(exit_code: ExitCode, arguments: tuple[str, ...]) -> None:
    assert exit_code("train", *arguments) == 2


def test_a_resumed_run_keeps_its_configuration(
    exit_code: ExitCode, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--resume", str(config_file.parent), "--set", "optimizer.momentum=0.5")
    assert exit_code("train", *arguments) == 2
    allowed = f"only {', '.join(training.CHANGEABLE)} may change: start a new run for the rest"
    assert allowed in capsys.readouterr().err


def test_too_few_cores_to_resume_on_need_no_new_run(
    exit_code: ExitCode, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = config_file.read_text().replace("workers = 2", "workers = 4096")
    folder = config_file.parent
    (folder / "config.toml").write_text(toml.replace("batch = 16", "batch = 4096"))
    assert exit_code("train", "--resume", str(folder)) == 2
    err = capsys.readouterr().err
    assert "the run has 4096 workers, but there is room for" in err
    assert "--workers" not in err
    assert "--set placement.pin=false" in err


def test_a_run_without_checkpoint_cannot_be_resumed(
    exit_code: ExitCode, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.rename(config_file.with_name("config.toml"))
    words = ("--resume", str(config_file.parent), "--set", "placement.pin=false")
    assert exit_code("train", *words) == 2
    assert "no checkpoint to resume from" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_that_comes_after_a_run_has_ended_changes_nothing_of_its_end(
    exit_code: ExitCode,
    config_file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    monkeypatch.setattr(training, "train", lambda config: config_file.parent)
    monkeypatch.setattr("knltrain.report.draw_curves", lambda _: signal.raise_signal(number))
    monkeypatch.setattr("knltrain.report.summary", lambda _: "test accuracy 99 %")
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert not exit_code("train", str(config_file))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert "test accuracy 99 %" in capsys.readouterr().out


def test_a_run_that_could_not_keep_its_model_tells_its_figures_and_fails(
    exit_code: ExitCode,
    config_file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def incomplete(config: RunConfig) -> Path:
        raise IncompleteRun("its checkpoint could not be written", config_file.parent)

    def full(run_folder: Path) -> Path:
        raise RunFolderError(f"{run_folder}/curves.png: the disk is full")

    monkeypatch.setattr(training, "train", incomplete)
    monkeypatch.setattr("knltrain.report.draw_curves", full)
    monkeypatch.setattr("knltrain.report.summary", lambda run_folder: "test accuracy 99 %")
    assert exit_code("train", str(config_file)) == 1
    out, err = capsys.readouterr()
    assert "missing: " in out
    assert "curves.png: the disk is full" in out
    assert "test accuracy 99 %" in out
    assert err == "error: its checkpoint could not be written\n"


def test_pictures_are_drawn_unless_they_are_not_wanted(
    exit_code: ExitCode, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(training, "train", lambda config: config_file.parent)
    monkeypatch.setattr("knltrain.report.draw_curves", lambda _: drawn.append("curves"))
    monkeypatch.setattr("knltrain.report.draw_confusion", lambda _: drawn.append("confusion"))
    monkeypatch.setattr("knltrain.report.summary", lambda _: "test accuracy 99 %")
    old = [config_file.with_name(name) for name in ("curves.png", "confusion.png")]
    for picture in old:
        picture.write_text("of the steps before")
    assert not exit_code("train", str(config_file), "--no-pictures")
    assert drawn == []
    assert not any(picture.exists() for picture in old)
    assert not exit_code("train", str(config_file))
    assert drawn == ["curves", "confusion"]
