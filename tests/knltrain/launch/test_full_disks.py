"""Real runs on a disk that fills up: they go on, and say what is missing."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knltrain.checkpoint.newest import newest_whole
from knltrain.metrics import read_metrics

pytestmark = pytest.mark.usefixtures("two_cores")

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def disk(tmp_path: Path, run_toml: str) -> Iterator[Path]:
    """A file system that holds a few checkpoints of the run whose description is in it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "knltrain-test", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small file system can be mounted here: {error}")
    (folder / "run.toml").write_text(run_toml.replace("keep = 100", "keep = 1"))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        part = bytes(2**16)
        while part:
            try:
                file.write(part)
            except OSError:
                part = part[: len(part) // 2]


def _read_until(process: subprocess.Popen[str], *words: tuple[str, ...]) -> list[str]:
    """Lines up to where for each of these there was one with all its words."""
    assert process.stdout is not None
    missing, lines = set(words), []
    for line in process.stdout:
        lines.append(line)
        missing -= {each for each in missing if all(word in line for word in each)}
        if not missing:
            return lines
    raise AssertionError(f"{missing} not in {''.join(lines)}")


@pytest.mark.slow
def test_run_goes_on_while_the_disk_is_full_and_makes_up_for_it(
    disk: Path, start_knltrain: Start
) -> None:
    choices = ("train.steps=100000000", "evaluation.every_epochs=2", "checkpoint.every_epochs=50")
    options = [f"--set={choice}" for choice in choices]
    with start_knltrain("train", "run.toml", *options, cwd=disk) as process:
        try:
            run, files = disk / "runs/run", ("checkpoint", "metrics-0.jsonl", "events.out")
            _read_until(process, ("test accuracy",))
            _fill(disk / "ballast")
            _read_until(process, *(("warning: worker", f": {name}", "No space") for name in files))
            (disk / "ballast").unlink()
            _read_until(process, *((f"{name}", "it is written now") for name in files))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "is kept: go on with" in err
    checkpoint, damaged = newest_whole(run)
    assert checkpoint is not None
    assert damaged == []
    accuracies = [each["step"] for each in read_metrics(run / "metrics-0.jsonl")]
    tests = [each for each in read_metrics(run / "metrics-0.jsonl") if each["kind"] == "test"]
    assert accuracies == sorted(accuracies)
    assert [each["step"] for each in tests] == [12 * (n + 1) for n in range(len(tests))]


@pytest.mark.slow
def test_run_whose_model_cannot_be_kept_comes_to_its_end_and_does_not_end_well(
    disk: Path, start_knltrain: Start
) -> None:
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    with start_knltrain("train", "run.toml", cwd=disk) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert out.count("warning: worker 0: checkpoint: ") == 1
    assert "step 12/12" in out
    assert "missing: worker 0: checkpoint: runs/run/checkpoint-12: cannot write" in out
    assert "test accuracy of the center" in out
    assert "has come to its end, but its checkpoint could not be written to runs/run" in err
    assert list((disk / "runs/run").glob("*checkpoint*")) == []


@pytest.mark.slow
def test_run_that_cannot_keep_where_it_stops_is_not_to_be_started_again(
    disk: Path, start_knltrain: Start
) -> None:
    """Though there is an older checkpoint: after status 75 it would be, for ever."""
    options = ("--set=train.steps=100000000", "--set=checkpoint.every_minutes=0")
    rare = ("--set=checkpoint.every_epochs=0", "--set=evaluation.every_epochs=2")
    with start_knltrain("train", "run.toml", *options, *rare, cwd=disk) as process:
        try:
            _read_until(process, ("test accuracy",))
            process.send_signal(signal.SIGUSR2)
            _read_until(process, ("checkpoint, as SIGUSR2 asks",))
            _fill(disk / "ballast")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 1
    assert ", whose checkpoint could not be written; runs/run/checkpoint-" in err
    assert " is kept: go on with knltrain train --resume runs/run" in err


@pytest.mark.slow
def test_run_whose_folder_is_removed_comes_to_its_end_and_says_so(
    tmp_path: Path, run_toml: str, start_knltrain: Start
) -> None:
    (tmp_path / "run.toml").write_text(run_toml)
    options = ("--set", "train.steps=600", "--set", "checkpoint.every_epochs=0")
    with start_knltrain("train", "run.toml", *options, cwd=tmp_path, pictures=True) as process:
        _read_until(process, ("test accuracy",))
        (tmp_path / "runs/run").rename(tmp_path / "runs/elsewhere")
        out, err = process.communicate(timeout=240)
    assert process.returncode == 1
    assert "step 600/600" in out
    assert "missing: curves" in out or "missing: runs/run: no training records" in out
    assert "its checkpoint and its result.json could not be written to runs/run" in err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["elsewhere"]
