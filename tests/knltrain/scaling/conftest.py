"""Folders of runs that have ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Path]

CONFIG = """\
network.name = "lenet"
data.name = "digits"
train = { epochs = 1, batch = 64 }
learning_rate.base = 0.01
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(name, workers, rates, batch, curve=[], config="", **more): the folder of such a run.

    `config` is added to its configuration, `more` to its result.
    """

    def make(
        name: str,
        workers: int,
        rates: list[float],
        batch: int,
        curve: Any = (),
        config: str = "",
        **more: Any,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.toml").write_text(f'name = "{name}"\n{CONFIG}{config}')
        result = {
            "network": "lenet",
            "data": "digits",
            "method": "sync_sgd",
            "backend": "cpu",
            "workers": workers,
            "batch": batch,
            "images_per_second": sum(rates) / len(rates),
            "exchange_share": 0.1,
            "communication_share": 0.2,
            "test_accuracy": None,
            "test_images": 20,
            "test_loss": 0.5,
            "train_seconds": 12.5,
            **more,
        }
        (folder / "result.json").write_text(json.dumps(result))
        records: list[dict[str, Any]] = [
            {"kind": "train", "images_per_second": each} for each in [1.0, *rates]
        ]
        records += [{"kind": "test", "seconds": at, "accuracy": each} for at, each in curve]
        lines = [json.dumps(each) for each in records]
        (folder / "metrics-0.jsonl").write_text("\n".join([*lines, ""]))
        return folder

    return make


@pytest.fixture
def runs(run: Run) -> list[Path]:
    """On two workers, and on one; the first rate of each is of its beginning."""
    steady = [100.0, 101.0, 99.0, 100.0, 100.0, 100.0]
    return [
        run("two", 2, [1.5 * each for each in steady], 64, nodes=2),
        run("one", 1, steady, 32),
    ]
