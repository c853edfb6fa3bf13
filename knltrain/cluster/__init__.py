"""Who this process is, in a run and in a cluster; only this package reads the environment.

That is, but for what `affinity` reads there of the machine.
"""

from knltrain.cluster.task import Task, this_task
from knltrain.cluster.variables import (
    PROCESSOR_SETTINGS,
    processor_settings,
    set_unless_set,
    value_of,
)
from knltrain.cluster.worker import MeetingPoint, WorkerIdentity, worker_identity

__all__ = [
    "PROCESSOR_SETTINGS",
    "MeetingPoint",
    "Task",
    "WorkerIdentity",
    "processor_settings",
    "set_unless_set",
    "this_task",
    "value_of",
    "worker_identity",
]
