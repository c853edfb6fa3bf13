"""One run of an entrant, and the results that are read from its folder."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knltrain.config import RunConfig
from knltrain.config.tables import PreemptionConfig
from knltrain.errors import WorkerFailed
from knltrain.launch.temporary_folder import temporary_folder
from knltrain.launch.training import train
from knltrain.metrics import read_metrics


@dataclass(frozen=True, slots=True)
class RunFigures:
    """`result` is result.json, `tests` the records of evaluations; both empty after a `failure`."""

    result: Mapping[str, Any]
    tests: tuple[Mapping[str, Any], ...]
    failure: str | None = None

    def first_with(self, accuracy: float) -> Mapping[str, Any] | None:
        """The first evaluation with at least that accuracy, or None."""
        return next((each for each in self.tests if each["accuracy"] >= accuracy), None)


def carry_out(config: RunConfig) -> RunFigures:
    """Train in a folder that is removed afterwards, even if this process is killed.

    A failed worker, as by a loss that is not finite, is a failure of its method; other errors of
    `train` are raised.
    """
    with temporary_folder() as folder:
        there = _kept_nowhere(config).model_copy(update={"runs_folder": str(folder.path)})
        try:
            with redirect_stdout(io.StringIO()):
                run_folder = train(there, kept_fds=(folder.fd,))
        except WorkerFailed as error:
            return RunFigures({}, (), str(error).partition("; last good checkpoint")[0])
        return _read(run_folder)


def _kept_nowhere(config: RunConfig) -> RunConfig:
    """The same run without checkpoints, by time or when stopped: it is never resumed."""
    never = config.checkpoint.model_copy(update={"every_minutes": 0.0})
    return config.model_copy(
        update={"checkpoint": never, "preemption": PreemptionConfig(signals=())}
    )


def _read(run_folder: Path) -> RunFigures:
    result = json.loads((run_folder / "result.json").read_text(encoding="utf-8"))
    records = read_metrics(run_folder / "metrics-0.jsonl")
    return RunFigures(result, tuple(each for each in records if each["kind"] == "test"))
