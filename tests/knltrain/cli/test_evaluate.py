"""What an evaluation found, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.evaluation import Evaluation
from knltrain.launch.evaluate_run import CheckpointEvaluation

Invoke = Callable[..., Result]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), "checkpoint-7: accuracy 97.50% of 1,000 test images, loss 0.1235\n"),
        (
            ("--json",),
            json.dumps(
                {
                    "checkpoint": "checkpoint-7",
                    "step": 7,
                    "accuracy": 0.975,
                    "loss": 0.12345,
                    "images": 1000,
                }
            )
            + "\n",
        ),
    ],
)
def test_an_evaluation_is_told_in_words_or_as_json(
    invoke: Invoke,
    options: tuple[str, ...],
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    def evaluate_run(run_folder: Path, overrides: tuple[str, ...], accepts: bool) -> object:
        seen.append((run_folder, overrides, accepts))
        found = Evaluation(loss=0.12345, accuracy=0.975, images=1000)
        return CheckpointEvaluation(Path("checkpoint-7"), 7, found)

    monkeypatch.setattr("knltrain.launch.evaluate_run.evaluate_run", evaluate_run)
    assert invoke("evaluate", str(tmp_path), *options).output == shown
    words = ("--set", "data.root=~/mnist", "--accept-other-data")
    invoke("evaluate", str(tmp_path), *options, *words)
    assert seen == [(tmp_path, (), False), (tmp_path, ("data.root=~/mnist",), True)]
