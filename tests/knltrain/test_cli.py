"""The words a user types, up to the point where a run would start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import knltrain
from knltrain import cli
from knltrain.config import RunConfig
from knltrain.errors import CheckpointError, KnltrainError, RunAborted
from knltrain.launch import training

Start = Callable[..., subprocess.Popen[str]]


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.commands, arguments)


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["knltrain", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.fixture
def config_file(tmp_path: Path, run_toml: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(run_toml)
    return path


def test_version_and_help() -> None:
    assert _invoke("--version").output == f"knltrain, version {knltrain.__version__}\n"
    for command in ("train", "warmup", "evaluate", "doctor", "bench"):
        assert command in _invoke("--help").output


def test_options_override_the_file_and_each_other(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RunConfig] = []

    def refuse(config: RunConfig) -> Path:
        seen.append(config)
        raise KnltrainError("enough")

    monkeypatch.setattr(training, "train", refuse)
    options = ("--workers", "4", "--name", "007", "--set", "train.steps=3", "--set", "workers=8")
    _invoke("train", str(config_file), *options)
    assert (seen[0].workers, seen[0].name, seen[0].train.steps) == (4, "007", 3)


def test_a_warm_up_is_of_a_configuration_with_its_overrides(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmup = pytest.importorskip("knltrain.launch.warmup")
    seen: list[RunConfig] = []

    def warm_up(config: RunConfig) -> object:
        seen.append(config)
        return warmup.WarmUp((), Path("/cache"), 1.0)

    monkeypatch.setattr(warmup, "warm_up", warm_up)
    shown = _invoke("warmup", str(config_file), "--set", "workers=4")
    assert shown.output.endswith("1.0 s in all; kernel cache /cache\n")
    assert seen[0].workers == 4


def test_a_known_error_becomes_one_line_and_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(monkeypatch, "train", str(tmp_path / "none.toml")) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "none.toml" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunAborted("stopped", 15), 143),
        (CheckpointError("damaged"), 2),
        (KnltrainError("other"), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_every_end_has_its_exit_code(
    error: BaseException, code: int, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(config: RunConfig) -> Path:
        raise error

    monkeypatch.setattr(training, "train", fail)
    assert _main(monkeypatch, "train", str(config_file)) == code


def test_too_many_workers_are_refused_with_the_way_out(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--workers", "4096", "--set", "train.batch=4096")
    assert _main(monkeypatch, "train", str(config_file), *options) == 2
    assert "4096 workers asked for" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("run.toml", "--resume", "."),
        ("--resume", ".", "--workers", "2"),
        ("--resume", ".", "--name", "other"),
    ],
)
def test_contradictory_words_are_refused(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _main(monkeypatch, "train", *arguments) == 2


def test_a_resumed_run_keeps_its_configuration(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--resume", str(config_file.parent), "--set", "optimizer.momentum=0.5")
    assert _main(monkeypatch, "train", *arguments) == 2
    assert "only train.epochs, train.steps, placement.pin may change" in capsys.readouterr().err


def test_too_few_cores_to_resume_on_need_no_new_run(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = config_file.read_text().replace("workers = 2", "workers = 4096")
    folder = config_file.parent
    (folder / "config.toml").write_text(toml.replace("batch = 16", "batch = 4096"))
    assert _main(monkeypatch, "train", "--resume", str(folder)) == 2
    err = capsys.readouterr().err
    assert "the run has 4096 workers, but there is room for" in err
    assert "--workers" not in err
    assert "--set placement.pin=false" in err


def test_a_run_without_checkpoint_cannot_be_resumed(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.rename(config_file.with_name("config.toml"))
    words = ("--resume", str(config_file.parent), "--set", "placement.pin=false")
    assert _main(monkeypatch, "train", *words) == 2
    assert "no checkpoint to resume from" in capsys.readouterr().err


def test_a_bench_report_is_shown_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = pytest.importorskip("knltrain.bench.step")
    seen: list[tuple[object, ...]] = []

    def measure(*arguments: object) -> dict[str, object]:
        seen.append(arguments)
        return {"network": "lenet"}

    monkeypatch.setattr(step, "run_step_benchmark", measure)
    table = "knltrain.bench.step_report.format_table"
    monkeypatch.setattr(table, lambda report: f"table of {report['network']}")
    path = tmp_path / "report.json"
    options = ("--batch", "32", "--peers", "torch, other", "--json", str(path))
    result = _invoke("bench", "step", *options, "--ipex-python", sys.executable)
    assert result.output == "table of lenet\n"
    assert seen == [("lenet", 32, ("torch", "other"), None, 7, 1, Path(sys.executable))]
    assert json.loads(path.read_text()) == {"network": "lenet"}


@pytest.mark.parametrize(
    ("path", "message"),
    [("missing/report.json", "there is no folder"), (".", "is a directory")],
)
def test_a_bench_report_that_cannot_be_written_is_refused_before_measuring(
    path: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = pytest.importorskip("knltrain.bench.step")
    monkeypatch.setattr(step, "run_step_benchmark", lambda *_: pytest.fail("it measured"))
    assert _main(monkeypatch, "bench", "step", "--json", str(tmp_path / path)) == 2
    assert message in capsys.readouterr().err


def test_a_bench_is_shown_even_if_its_report_can_no_longer_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = pytest.importorskip("knltrain.bench.step")
    path = tmp_path / "report.json"
    monkeypatch.setattr(step, "run_step_benchmark", lambda *_: path.mkdir() or {})
    monkeypatch.setattr("knltrain.bench.step_report.format_table", lambda _: "table")
    assert _main(monkeypatch, "bench", "step", "--json", str(path)) == 1
    shown = capsys.readouterr()
    assert shown.out == "table\n"
    assert f"Could not open file '{path}': Is a directory" in shown.err


def test_the_module_is_the_command(tmp_path: Path, start_knltrain: Start) -> None:
    with start_knltrain("train", "missing.toml", cwd=tmp_path) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("error: missing.toml")


def test_topology_shows_what_affinity_shows(capsys: pytest.CaptureFixture[str]) -> None:
    result = _invoke("topology", "--json")
    assert result.exit_code == 0
    assert "numa_nodes" in result.output
