"""The table of accuracies: trained once, then told from what is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/accuracy"


def accuracy(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words], capture_output=True, text=True, cwd=ROOT
    )


def finished(folder: Path, name: str, reached: float, workers: int, seconds: float) -> None:
    """A run as it is left by training, with two tests."""
    run = folder / name
    run.mkdir(parents=True)
    result = {"data": "digits", "network": "lenet", "workers": workers, "steps": 20, "batch": 64}
    result |= {
        "test_accuracy": reached,
        "test_images": 359,
        "iter_size": 2,
        "train_seconds": seconds,
    }
    (run / "result.json").write_text(json.dumps(result))
    events = [
        {"kind": "train", "step": 1, "loss": 2.3, "run_loss": 2.3},
        {
            "kind": "test",
            "step": 10,
            "accuracy": reached / 2,
            "loss": 1.5,
            "seconds": 0.5 * seconds,
        },
        {"kind": "train", "step": 15, "loss": 1.0, "run_loss": 0.5},
        {"kind": "test", "step": 20, "accuracy": reached, "loss": 1.0, "seconds": seconds},
    ]
    (run / "metrics-0.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))


def test_finished_runs_are_told_and_not_made_again(tmp_path: Path) -> None:
    finished(tmp_path, "lenet_digits-one-1", 0.9875, 1, 7.4)
    finished(tmp_path, "lenet_digits-sync_easgd-1", 0.75, 2, 5.2)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    done = accuracy(tmp_path, "--picture", tmp_path / "curves.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in (tmp_path / "curves.svg").read_text()
    assert done.stdout.splitlines() == [
        "| data | network | method | workers | seed | accuracy, % | images | seconds "
        "| equal time, s | accuracy then, % |",
        "|---|---|---|---|---|---|---|---|---|---|",
        "| digits | lenet | one | 1 | 1 | 98.75 | 2,560 | 7 | 5 | 49.38 |",
        "| digits | lenet | sync_easgd | 2 | 1 | 75.00 | 2,560 | 5 | 5 | 75.00 |",
    ]
    rows = json.loads((tmp_path / "accuracy.json").read_text())
    assert [(row["method"], row["accuracy"]) for row in rows] == [
        ("one", 0.9875),
        ("sync_easgd", 0.75),
    ]
    assert (tmp_path / "accuracy.png").read_bytes()[1:4] == b"PNG"
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tasks", "lenet"], "unknown task lenet: expected lenet_digits, caffe_lenet"),
        (["--methods", "one,two"], "unknown method two: expected one, one_bfloat16, sync_sgd"),
        (["--tasks", "hand_signs"], "hand_signs needs --hand-signs DATA, the folder of its files"),
    ],
)
def test_bad_words_are_named(tmp_path: Path, words: list[str], told: str) -> None:
    done = accuracy(tmp_path / "runs", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_that_fails_is_named(tmp_path: Path) -> None:
    done = accuracy(tmp_path, "--methods", "one", "--set", "train.batch=0")
    assert done.returncode == 1
    assert "accuracy: no figures of lenet_digits-one-1" in done.stderr
    assert json.loads((tmp_path / "accuracy.json").read_text()) == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["one", "diloco"])
def test_a_run_is_trained(tmp_path: Path, method: str) -> None:
    done = accuracy(tmp_path, "--methods", method, "--set", "train.epochs=5")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "accuracy.json").read_text())
    assert (row["workers"], row["images"]) == (1 if method == "one" else 2, 5 * 22 * 64)
    assert row["accuracy"] > 0.3
