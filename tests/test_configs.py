"""The shipped configs, run as they are: the accuracies that the README gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MNIST = ROOT.parent / "shared" / "data" / "mnist"


def result_of(tmp_path: Path, config: str, *arguments: str) -> dict[str, float]:
    """Train as `config` says in `tmp_path`, and return the run's result.json."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "knltrain",
            "train",
            "--no-pictures",
            str(ROOT / "configs" / config),
            *arguments,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    name = config.removesuffix(".toml")
    result: dict[str, float] = json.loads((tmp_path / "runs" / name / "result.json").read_text())
    return result


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_digits_reach_their_accuracy_by_synchronous_easgd(tmp_path: Path, seed: int) -> None:
    result = result_of(tmp_path, "lenet_digits.toml", "--set", f"seed={seed}")
    assert result["method"] == "sync_easgd"
    assert result["test_accuracy"] >= 0.985


@pytest.mark.slow
@pytest.mark.skipif(not MNIST.is_dir(), reason=f"no MNIST files in {MNIST}")
def test_mnist_reaches_its_accuracy_by_synchronous_easgd(tmp_path: Path) -> None:
    result = result_of(tmp_path, "lenet_mnist.toml", "--set", f"data.root={MNIST}")
    assert result["test_images"] == 1000
    assert result["test_accuracy"] >= 0.980


@pytest.mark.slow
def test_digits_reach_their_accuracy_by_synchronous_sgd_on_the_torch_backend(
    tmp_path: Path,
) -> None:
    chosen = ("exchange.method=sync_sgd", "backend.name=torch", "train.epochs=20")
    result = result_of(tmp_path, "lenet_digits.toml", *(f"--set={choice}" for choice in chosen))
    assert result["test_accuracy"] >= 0.985
