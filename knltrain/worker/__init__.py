"""One local worker: the loop over its steps, and what acts at the loop's named moments."""

from knltrain.worker.due import DueSteps, Evaluates, KeepsCheckpoints
from knltrain.worker.loop import Worker
from knltrain.worker.observer import Observer, RunResult
from knltrain.worker.records import LogsMetrics, WritesPlan, WritesResult

__all__ = [
    "DueSteps",
    "Evaluates",
    "KeepsCheckpoints",
    "LogsMetrics",
    "Observer",
    "RunResult",
    "Worker",
    "WritesPlan",
    "WritesResult",
]
