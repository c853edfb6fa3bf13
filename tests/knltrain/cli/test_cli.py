"""The command as a whole: its words, and how every end is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

import knltrain
from knltrain.config import RunConfig
from knltrain.errors import CheckpointError, KnltrainError, RunAborted, RunStopped
from knltrain.launch import training
from vectorized_ops.errors import OperationError

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]
Start = Callable[..., subprocess.Popen[str]]


def test_version_and_help(invoke: Invoke) -> None:
    assert invoke("--version").output == f"knltrain, version {knltrain.__version__}\n"
    for command in ("train", "warmup", "evaluate", "doctor", "bench"):
        assert command in invoke("--help").output


def test_a_known_error_becomes_one_line_and_its_exit_code(
    exit_code: ExitCode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("train", str(tmp_path / "none.toml")) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "none.toml" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunAborted("stopped", 15), 143),
        (RunStopped("stopped"), 75),
        (CheckpointError("damaged"), 2),
        (KnltrainError("other"), 1),
        (OperationError("too many threads"), 2),
        (OSError(36, "File name too long", "aaa"), 2),
        (MemoryError("Unable to allocate 40.2 GiB"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_every_end_has_its_exit_code(
    exit_code: ExitCode,
    error: BaseException,
    code: int,
    config_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(config: RunConfig) -> Path:
        raise error

    monkeypatch.setattr(training, "train", fail)
    assert exit_code("train", str(config_file)) == code
    assert not str(error) or str(error.args[-1]) in capsys.readouterr().err


def test_the_module_is_the_command(tmp_path: Path, start_knltrain: Start) -> None:
    with start_knltrain("train", "missing.toml", cwd=tmp_path) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("error: missing.toml")


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_run_with_closed_streams_and_names_beyond_ascii_comes_to_its_end(
    config_file: Path, closed: str
) -> None:
    """As under nohup, and where the encoding of the streams is a poor one."""
    words = f'"$python" -m knltrain train {config_file.name} --set runs_folder=läufe {closed}'
    variables = {
        **os.environ,
        "PYTHONPATH": str(Path(knltrain.__file__).parents[1]),
        "PYTHONIOENCODING": "ascii",
        "python": sys.executable,
    }
    ended = subprocess.run(
        ["sh", "-c", words], cwd=config_file.parent, env=variables, capture_output=True, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (config_file.parent / "läufe/run/result.json").exists()
    if closed == "<&-":
        assert b"run folder l\\xe4ufe/run" in ended.stdout
        assert b"run folder                   l\\xe4ufe/run" in ended.stdout


@pytest.mark.parametrize("module", ["knltrain.cli", "affinity.cli.parser", "affinity.exec"])
def test_imports_leave_closed_streams_closed(module: str) -> None:
    """So that it is not too late for what is done first after them."""
    found = "[number for number in (0, 1, 2) if os.path.exists(f'/proc/self/fd/{number}')]"
    program = f"import os, {module}; os._exit(7 if {found} == [] else 8)"
    line = f'"$python" -c "{program}" <&- >&- 2>&-'
    root = str(Path(knltrain.__file__).parents[1])
    variables = {**os.environ, "PYTHONPATH": root, "python": sys.executable}
    assert subprocess.run(["sh", "-c", line], env=variables, timeout=60).returncode == 7


def test_output_of_a_command_may_end_early(tmp_path: Path) -> None:
    """As by ``knltrain methods | head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "knltrain", "methods"],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writer)
    assert ended.stderr == b""


def test_setting_of_numba_that_leaves_no_kernels_is_refused_at_the_start(
    exit_code: ExitCode,
    config_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert exit_code("train", str(config_file)) == 2
    assert capsys.readouterr().err.startswith("error: NUMBA_DISABLE_JIT=1: ")


def test_topology_shows_what_affinity_shows(
    invoke: Invoke, capsys: pytest.CaptureFixture[str]
) -> None:
    result = invoke("topology", "--json")
    assert result.exit_code == 0
    assert "numa_nodes" in result.output
