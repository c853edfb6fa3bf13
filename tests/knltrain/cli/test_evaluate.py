"""What an evaluation found, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.errors import ConfigError, RunFolderError
from knltrain.evaluation import ClassCounts, Evaluation
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

    def evaluate_run(
        run_folder: Path, overrides: tuple[str, ...], accepts: bool, **other: object
    ) -> object:
        seen.append((run_folder, overrides, accepts, *other.values()))
        found = Evaluation(loss=0.12345, accuracy=0.975, images=1000)
        return CheckpointEvaluation(Path("checkpoint-7"), 7, found)

    monkeypatch.setattr("knltrain.launch.evaluate_run.evaluate_run", evaluate_run)
    assert invoke("evaluate", str(tmp_path), *options).output == shown
    words = ("--set", "data.root=~/mnist", "--accept-other-data")
    invoke("evaluate", str(tmp_path), *options, *words)
    others = ("--data", "name=folder", "--data", "root=/a", "--half", "train")
    invoke("evaluate", str(tmp_path), *options, *others)
    assert seen == [
        (tmp_path, (), False, (), "test"),
        (tmp_path, ("data.root=~/mnist",), True, (), "test"),
        (tmp_path, (), False, ("name=folder", "root=/a"), "train"),
    ]


CONFUSION = ((2, 1, 0), (0, 0, 0), (1, 0, 4))
FEW = ClassCounts((3, 0, 5), (2, 0, 4), None, CONFUSION)
MANY = ClassCounts((1,) * 101, (1,) * 101, 99, None)


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Callable[[ClassCounts], None]:
    """evaluated(counts): what is found of a run, by class."""

    def choose(counts: ClassCounts) -> None:
        found = CheckpointEvaluation(Path("checkpoint-7"), 7, Evaluation(0.75, 0.5, 8, counts))
        monkeypatch.setattr("knltrain.launch.evaluate_run.evaluate_run", lambda *_, **__: found)

    return choose


def test_few_classes_are_told_one_by_one(
    invoke: Invoke, evaluated: Callable[[ClassCounts], None], tmp_path: Path
) -> None:
    evaluated(FEW)
    assert invoke("evaluate", str(tmp_path)).output.splitlines()[1:] == [
        "class  images  accuracy",
        "    0       3    66.67%",
        "    1       0         -",
        "    2       5    80.00%",
    ]
    found = json.loads(invoke("evaluate", str(tmp_path), "--json").output)
    assert found["class_accuracy"] == [2 / 3, None, 0.8]
    assert (found["top5_accuracy"], found["confusion"]) == (None, [list(row) for row in CONFUSION])
    picture = tmp_path / "confusion.png"
    assert invoke("evaluate", str(tmp_path), f"--picture={picture}").exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_classes_and_the_half_are_told_by_their_names(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("day", "dawn", "twilight")
    counts = Evaluation(0.75, 0.5, 8, replace(FEW, names=names))
    found = CheckpointEvaluation(Path("checkpoint-7"), 7, counts, (), "train")
    monkeypatch.setattr("knltrain.launch.evaluate_run.evaluate_run", lambda *_, **__: found)
    assert invoke("evaluate", str(tmp_path)).output.splitlines() == [
        "checkpoint-7: accuracy 75.00% of 8 training images, loss 0.5000",
        "class     images  accuracy",
        "     day       3    66.67%",
        "    dawn       0         -",
        "twilight       5    80.00%",
    ]
    told = json.loads(invoke("evaluate", str(tmp_path), "--json").output)
    assert told["class_names"] == list(names)


def test_of_many_classes_the_nearest_are_told(
    invoke: Invoke, evaluated: Callable[[ClassCounts], None], tmp_path: Path
) -> None:
    evaluated(MANY)
    assert invoke("evaluate", str(tmp_path)).output.splitlines()[1:] == ["top-5 accuracy 98.02%"]
    for name, said in (("a.png", "up to 100 classes"), ("a.svg", "a name that ends in .png")):
        error = invoke("evaluate", str(tmp_path), "--picture", str(tmp_path / name)).exception
        assert isinstance(error, ConfigError)
        assert said in str(error)


def test_images_of_several_classes_have_no_confusion_matrix_to_draw(
    invoke: Invoke, evaluated: Callable[[ClassCounts], None], tmp_path: Path
) -> None:
    evaluated(ClassCounts((3, 3), (2, 1), None, None))
    error = invoke("evaluate", str(tmp_path), "--picture", str(tmp_path / "a.png")).exception
    assert "100 classes, and one for each image; leave --picture out" in str(error)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_was_found_is_told_though_it_cannot_be_drawn(
    invoke: Invoke,
    evaluated: Callable[[ClassCounts], None],
    tmp_path: Path,
    options: tuple[str, ...],
) -> None:
    evaluated(FEW)
    told = invoke("evaluate", str(tmp_path), *options)
    lost = invoke("evaluate", str(tmp_path), *options, "--picture", str(tmp_path / "none/a.png"))
    assert isinstance(lost.exception, RunFolderError)
    assert lost.output == told.output != ""
