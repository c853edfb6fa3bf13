"""What is said where there is nothing to evaluate; the figures are compared in test_training.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.errors import CheckpointError, RunFolderError
from knltrain.launch.evaluate_run import evaluate_run


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not the folder of a run"):
        evaluate_run(tmp_path)


def test_a_run_without_a_checkpoint_is_refused(tmp_path: Path, run_toml: str) -> None:
    (tmp_path / "config.toml").write_text(run_toml)
    with pytest.raises(CheckpointError, match=r"no checkpoint .* checkpoint.every_epochs"):
        evaluate_run(tmp_path)
