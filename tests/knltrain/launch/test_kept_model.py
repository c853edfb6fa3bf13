"""Which checkpoint's model is taken, and how its pictures become images."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.config import load_config
from knltrain.errors import CheckpointError, DamagedCheckpoint
from knltrain.launch.kept_model import model_in, preprocessing_of_run
from knltrain.launch.run_folder import PREPROCESSING, read_preprocessing
from knltrain.network.zoo.lenet import lenet

from ..trained_run import trained_run, write_pictures

NAMES = {"dark": "night", "light": "day", "split": "dusk"}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    root = write_pictures(tmp_path / "pictures", NAMES, count=4)
    return trained_run(tmp_path / "run", root, train__steps=2)


def test_damaged_checkpoints_are_passed_over_unless_they_are_asked_for(run_folder: Path) -> None:
    last = run_folder / "checkpoint-2"
    (run_folder / "checkpoint-3").mkdir()
    found, notes = model_in(run_folder, None, lenet(3))
    assert found.folder == last
    assert "checkpoint-2 is taken" in notes[0]
    with pytest.raises(DamagedCheckpoint):
        model_in(run_folder, run_folder / "checkpoint-3", lenet(3))
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        model_in(run_folder / "pictures", None, lenet(3))


def test_preprocessing_of_older_runs_is_that_of_their_data_to_the_bit(run_folder: Path) -> None:
    kept = read_preprocessing(run_folder)
    assert kept is not None
    (run_folder / PREPROCESSING).unlink()
    text = (run_folder / "config.toml").read_text()
    assert '"training"' not in text
    config = load_config(
        run_folder / "config.toml", ["data.mean=training", "data.deviation=training"]
    )
    found, notes = preprocessing_of_run(run_folder, config, lenet(3))
    assert found.to_json() == kept.to_json()
    assert len(notes) == 1
