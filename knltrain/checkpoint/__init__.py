"""Keeping a run on disk so that it can go on, bit for bit, as if it had never stopped.

A checkpoint is a folder `checkpoint-<step>`, the run's step: `center.safetensors` (the model, one
named tensor per parameter), `worker-<rank>.safetensors` (that worker's packed local, the state of
its optimizer, and how many steps it has done itself) and `state.json`. It is written beside its
place and renamed when complete, and renamed again before it is removed, so a folder of that name
is whole as far as the writer is concerned. Each file carries a digest of its content, so what a
disk makes of it is noticed.
"""

from knltrain.checkpoint.contents import RunIdentity, WorkerState
from knltrain.checkpoint.folders import by_step, folder_at, latest_checkpoint
from knltrain.checkpoint.newest import newest_whole, set_aside
from knltrain.checkpoint.reader import (
    Checkpoint,
    check_identity,
    load_checkpoint,
    load_worker_state,
)
from knltrain.checkpoint.writer import CheckpointWriter

__all__ = [
    "Checkpoint",
    "CheckpointWriter",
    "RunIdentity",
    "WorkerState",
    "by_step",
    "check_identity",
    "folder_at",
    "latest_checkpoint",
    "load_checkpoint",
    "load_worker_state",
    "newest_whole",
    "set_aside",
]
