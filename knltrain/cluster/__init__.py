"""The identity of this process in a run and in a cluster, read from the environment.

Only this package, and `affinity` for the machine, read environment variables.
"""

from knltrain.cluster.job_end import JobEnd
from knltrain.cluster.job_secret import JobSecret
from knltrain.cluster.mpi_job import MpiJob, launched_mpi_job, telling_mpi
from knltrain.cluster.task import Task, this_task
from knltrain.cluster.variables import (
    PROCESSOR_SETTINGS,
    check_compiling_settings,
    processor_settings,
    set_unless_set,
    value_of,
)
from knltrain.cluster.worker import MeetingPoint, WorkerIdentity, worker_identity

__all__ = [
    "PROCESSOR_SETTINGS",
    "JobEnd",
    "JobSecret",
    "MeetingPoint",
    "MpiJob",
    "Task",
    "WorkerIdentity",
    "check_compiling_settings",
    "launched_mpi_job",
    "processor_settings",
    "set_unless_set",
    "telling_mpi",
    "this_task",
    "value_of",
    "worker_identity",
]
