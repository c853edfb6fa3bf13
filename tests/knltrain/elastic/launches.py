"""Launches of the tests: workers with a model of PyTorch, several processes of one program."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import torch
from torch import nn

from knltrain.elastic import Elastic

from ...forked_python import start_python
from ..ranks import told_as_json

PROGRAM = str(Path(__file__).with_name("elastic_rank.py"))
OPTIONS: dict[str, dict[str, Any]] = {
    "diloco": {"communication_period": 5},
    "streaming_diloco": {"communication_period": 6, "fragments": 3, "delay_steps": 1},
    "shmcaffe_h": {"group_size": 1},
    "hierarchical_easgd": {"group_size": 1},
    "hierarchical_sgd": {"group_size": 1},
    "slowmo": {"communication_period": 5},
    "async_msgd": {"center_momentum": 0.3},
    "mdownpour": {"center_momentum": 0.3},
}
"""So that exchanges come in 30 steps, and two workers go in groups.

Momentum of pushes that come late may diverge at the rate of the tests.
"""


def launched(
    scene: str, method: str, *, workers: int = 2, nodes: int = 1, **options: Any
) -> list[tuple[int, Any]]:
    """Exit status and outcome of each worker, by rank."""
    chosen = {**OPTIONS.get(method, {}), **options}
    words = [PROGRAM, scene, method, json.dumps(chosen)]
    found = []
    for status, output in outputs_of(words, workers, nodes):
        lines = told_as_json(output)
        found.append((status, lines[-1][0] if lines else output))
    return found


def outputs_of(words: list[str], workers: int = 2, nodes: int = 1) -> list[tuple[int, str]]:
    """Exit status and output of each process of a launch, by rank."""
    job, secret = f"elastic test {os.getpid()} {secrets.token_hex(4)}", secrets.token_hex(32)
    started = []
    for rank in range(workers):
        of_torchrun = {
            "TORCHELASTIC_RUN_ID": job,
            "RANK": rank,
            "WORLD_SIZE": workers,
            "LOCAL_RANK": rank % (workers // nodes),
            "LOCAL_WORLD_SIZE": workers // nodes,
            "GROUP_RANK": rank // (workers // nodes),
            "MASTER_ADDR": "127.0.0.1",
            "KNLTRAIN_JOB_SECRET": secret,
        }
        environment = {name: str(value) for name, value in of_torchrun.items()}
        started.append(start_python(words, environment))
    told = [process.communicate(120)[0] for process in started]
    return [(process.wait(), output) for process, output in zip(started, told, strict=True)]


def alone(method: str = "sync_easgd", **options: Any) -> Elastic:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return Elastic(model, optimizer, method, implementation="reference", **options)
