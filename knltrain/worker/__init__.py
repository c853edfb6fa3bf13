"""One local worker: the loop over its steps, and what acts at the loop's named moments."""

from knltrain.worker.loop import Worker
from knltrain.worker.observer import Observer
from knltrain.worker.periodic import DueSteps, Evaluates, KeepsCheckpoints
from knltrain.worker.result import RunResult
from knltrain.worker.run_files import LogsMetrics, WritesPlan, WritesResult
from knltrain.worker.termination import RunProgress, Termination, step_of_run

__all__ = [
    "DueSteps",
    "Evaluates",
    "KeepsCheckpoints",
    "LogsMetrics",
    "Observer",
    "RunProgress",
    "RunResult",
    "Termination",
    "Worker",
    "WritesPlan",
    "WritesResult",
    "step_of_run",
]
