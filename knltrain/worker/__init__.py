"""One local worker: the loop over its steps, and the observers called at its named moments."""

from knltrain.worker.loop import Worker
from knltrain.worker.observer import Observer
from knltrain.worker.periodic import CheckpointObserver, DueSteps, EvaluationObserver
from knltrain.worker.result import RunResult
from knltrain.worker.run_files import MetricsObserver, PlanObserver, ResultObserver
from knltrain.worker.termination import RunProgress, Termination, step_of_run
from knltrain.worker.view import WorkerView

__all__ = [
    "CheckpointObserver",
    "DueSteps",
    "EvaluationObserver",
    "MetricsObserver",
    "Observer",
    "PlanObserver",
    "ResultObserver",
    "RunProgress",
    "RunResult",
    "Termination",
    "Worker",
    "WorkerView",
    "step_of_run",
]
