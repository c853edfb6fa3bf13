"""Whole runs whose layers go along trees, on one computer: what comes of them, and how they end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from ..mpi_ranks import library_or_skip
from .worker_processes import workers_of

Start = Callable[..., subprocess.Popen[str]]
TREES = ("--set", "exchange.method=caffegpi")
MORE = ("--set", "optimizer.weight_decay=0.001", "--set", "placement.pin=false")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_toml: str) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    (folder / "run.toml").write_text(run_toml)
    return folder


@pytest.fixture
def with_mpi(two_cores: None) -> None:
    library_or_skip()


def _train(start: Start, folder: Path, name: str, *more: str) -> Path:
    process = start("train", "run.toml", *MORE, *more, "--name", name, cwd=folder)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return folder / "runs" / name


def _kept(run: Path, name: str) -> dict[str, np.ndarray]:
    return load_file(run / f"checkpoint-12/{name}.safetensors")


@pytest.mark.usefixtures("with_mpi")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "more", "state"),
    [
        ("sgd", (), "velocity"),
        ("adamw", ("--set", "optimizer.clip_norm=0.5"), "first_moment"),
        pytest.param("lars", (), "velocity", marks=pytest.mark.long),
    ],
)
def test_two_workers_train_to_the_bits_of_sync_sgd_and_resume_to_them(
    folder: Path, start_knltrain: Start, kind: str, more: tuple[str, ...], state: str
) -> None:
    chosen = ("--set", f"optimizer.name={kind}", *more)
    run = _train(start_knltrain, folder, f"trees-{kind}", *TREES, *chosen)
    sync = ("--set", "exchange.method=sync_sgd")
    expected = _train(start_knltrain, folder, f"sync-{kind}", *sync, *chosen)
    cut = folder / f"runs/cut-{kind}"
    shutil.copytree(run, cut)
    shutil.rmtree(cut / "checkpoint-12")
    (cut / "result.json").unlink()
    process = start_knltrain("train", "--resume", str(cut), cwd=folder)
    assert (process.communicate(timeout=120)[1], process.returncode) == ("", 0)
    for name in ("center", "worker-0", "worker-1"):
        ours, again = _kept(run, name), _kept(cut, name)
        assert ours.keys() == again.keys()
        assert all(np.array_equal(ours[key], again[key]) for key in ours), name
    assert any(state in key for key in _kept(run, "worker-0"))
    ours, theirs = _kept(run, "center"), _kept(expected, "center")
    assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)
    results = [json.loads((each / "result.json").read_text()) for each in (run, expected)]
    assert results[0]["test_loss"] == results[1]["test_loss"]
    assert results[0]["background_seconds"] > 0
    assert results[0]["cost_seconds"]["waiting"] > 0


@pytest.mark.usefixtures("with_mpi")
@pytest.mark.slow
def test_three_workers_train_to_sync_sgd_up_to_the_order_of_sums(
    folder: Path, start_knltrain: Start
) -> None:
    size = ("--workers", "3", "--set", "train.batch=24", "--set", "train.steps=12")
    text = (folder / "run.toml").read_text().replace("epochs = 2\n", "")
    (folder / "steps.toml").write_text(text)
    runs = []
    for method in ("caffegpi", "sync_sgd"):
        words = ("train", "steps.toml", *MORE, *size, "--set", f"exchange.method={method}")
        process = start_knltrain(*words, "--name", f"{method}-3", cwd=folder)
        assert (process.communicate(timeout=120)[1], process.returncode) == ("", 0)
        runs.append(_kept(folder / "runs" / f"{method}-3", "center"))
    for key, values in runs[0].items():
        np.testing.assert_allclose(values, runs[1][key], rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("with_mpi")
@pytest.mark.slow
def test_worker_that_is_killed_ends_the_run_with_its_name(
    folder: Path, start_knltrain: Start
) -> None:
    more = ("--set", "train.epochs=100000000", "--set", "evaluation.every_epochs=0")
    process = start_knltrain("train", "run.toml", *MORE, *TREES, *more, "--name", "k", cwd=folder)
    metrics, deadline = folder / "runs/k/metrics-0.jsonl", time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search("worker 1 failed: it was killed by SIGKILL", err), err
