"""Processes in groups of different speeds agree on the end of their run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors import safe_open

from knltrain.assembly import build_method, build_network
from knltrain.config import load_config
from knltrain.exchange.strategies.node_memory import NodeMemory

MEMBER = Path(__file__).with_name("group_member.py")
ROOT = Path(__file__).parents[3]
WORKERS, STEPS = 4, 36
IN_GROUPS = """
workers = 4
network.name = "lenet"
train = { steps = 36, batch = 16 }
data = { name = "digits", train_images = 96 }
learning_rate.base = 0.01
checkpoint.every_epochs = 1
evaluation.every_epochs = 1
[exchange]
method = "shmcaffe_h"
group_size = 2
"""

Member = subprocess.Popen
Start = Callable[..., "list[Member[str]]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(rule, pauses): four workers in two groups, who pause so many seconds after a step."""
    started: list[Member[str]] = []
    memory: list[NodeMemory] = []

    def begin(rule: str, pauses: tuple[float, ...]) -> list[Member[str]]:
        toml = tmp_path / "run.toml"
        toml.write_text(f'{IN_GROUPS}termination = "{rule}"\n')
        config = load_config(toml)
        size = build_network(config).packed_size
        memory.append(NodeMemory(size, WORKERS, build_method(config, WORKERS), "memfd"))
        for rank, pause in enumerate(pauses):
            fds = memory[0].fds_of(rank)
            numbers = map(str, (rank, pause, *fds))
            started.append(
                subprocess.Popen(
                    [sys.executable, str(MEMBER), str(tmp_path), *numbers],
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=fds,
                    text=True,
                )
            )
        return started

    yield begin
    for each in started:
        each.kill()
        each.communicate()
    for each in memory:
        each.close()


RULES = [pytest.param(rule, marks=pytest.mark.slow) for rule in ("master", "fastest")]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["average", *RULES])
def test_a_group_with_a_slow_worker_ends_with_the_other_group(
    rule: str, start: Start, tmp_path: Path
) -> None:
    ends = []
    for worker in start(rule, (0, 0, 0, 0.05)):
        out, err = worker.communicate(timeout=120)
        assert (worker.returncode, err) == (0, "")
        ends.append(json.loads(out.splitlines()[-1]))
    [(steps, counts)] = {(steps, tuple(counts)) for _, steps, counts in ends}
    assert steps == STEPS
    assert counts == tuple(own for own, *_ in ends)
    assert (counts[0], counts[2]) == (counts[1], counts[3])
    fast, slow = counts[0], counts[2]
    assert fast > slow
    if rule == "average":
        assert 2 * STEPS <= fast + slow <= 2 * STEPS + 1
    else:
        assert fast == STEPS
    for rank in range(WORKERS):
        kept = tmp_path / f"checkpoint-{STEPS}" / f"worker-{rank}.safetensors"
        with safe_open(kept, framework="numpy") as file:
            assert int(file.metadata()["step"]) == counts[rank]


@pytest.mark.slow
def test_a_worker_that_dies_ends_its_group_and_the_other_that_waits_for_it(start: Start) -> None:
    workers = start("master", (0, 0, 0, 1.0))
    assert workers[3].stdout is not None
    assert workers[3].stdout.readline() == "begun\n"
    workers[3].kill()
    for rank, worker in enumerate(workers[:3]):
        _, err = worker.communicate(timeout=120)
        assert worker.returncode == 1
        assert "PeerLost" in err, rank
