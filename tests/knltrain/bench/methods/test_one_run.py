from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from knltrain.bench.methods import one_run
from knltrain.bench.methods.entrants import configuration, entrants
from knltrain.bench.methods.one_run import RunFigures, carry_out
from knltrain.bench.methods.task import task_named
from knltrain.config import RunConfig
from knltrain.errors import RunAborted, WorkerFailed


@pytest.fixture
def config() -> RunConfig:
    [alone, _] = entrants(["none"], 1)
    return configuration(alone, task_named("lenet", None), threads=1, seed=1)


def test_first_evaluation_with_an_accuracy_counts() -> None:
    tests = tuple({"step": step, "accuracy": each} for step, each in enumerate((0.1, 0.5, 0.4)))
    found = RunFigures({}, tests)
    assert found.first_with(0.4) == {"step": 1, "accuracy": 0.5}
    assert found.first_with(0.6) is None


@pytest.mark.parametrize("error", [WorkerFailed(1, "step 7; last good checkpoint: x"), RunAborted])
def test_folder_is_removed_and_only_a_worker_s_failure_is_an_answer(
    config: RunConfig,
    error: type[Exception] | Exception,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[Path] = []

    def train(config: RunConfig, kept_fds: tuple[int, ...]) -> Path:
        seen.append(Path(config.runs_folder))
        (seen[-1] / "run").mkdir()
        print("not to be seen")
        raise error if isinstance(error, Exception) else error("stopped", 15)

    monkeypatch.setattr(one_run, "train", train)
    if isinstance(error, WorkerFailed):
        assert carry_out(config) == RunFigures({}, (), "worker 1 failed: step 7")
    else:
        with pytest.raises(RunAborted):
            carry_out(config)
    assert seen[0].parent == tmp_path
    assert not list(tmp_path.iterdir())
