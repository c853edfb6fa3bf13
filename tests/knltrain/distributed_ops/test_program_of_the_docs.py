"""The program in docs/library.md, as a reader would run it."""

from __future__ import annotations

import ast
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...forked_python import REPOSITORY

TEXT = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8")
TOLD = re.compile(r"rank (\d): accuracy ([\d.]+) -> ([\d.]+), weights ([0-9a-f]{16})")


def programs() -> tuple[str, str]:
    digits, googlenet = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    return str(digits), str(googlenet)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "digits.py"
    path.write_text(programs()[0], encoding="utf-8")
    return path


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )


def check(processes: list[subprocess.Popen[str]]) -> None:
    """Both ranks have learnt, hold the same bits, and one has printed the table."""
    out = "".join(process.communicate(timeout=300)[0] for process in processes)
    assert [process.returncode for process in processes] == [0] * len(processes)
    told = sorted(TOLD.findall(out))
    assert [rank for rank, *_ in told] == ["0", "1"]
    for _, before, after, _ in told:
        assert float(before) < 0.3
        assert float(after) > 0.93
    assert told[0][1:] == told[1][1:]
    lines = out.splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("layer "))
    rows = [line.split() for line in lines[head + 1 :] if line.startswith("conv2")]
    assert [row[1] for row in rows] == ["forward", "backward_data", "backward_weights", "update"]
    issued, exposed = (float(text) for text in rows[2][4:6])
    assert 0 < exposed < issued


@pytest.mark.slow
def test_two_processes_learn_by_shared_memory(script: Path) -> None:
    address = f"test-{secrets.token_hex(6)}"
    check([start(str(script), str(rank), "2", address) for rank in range(2)])


@pytest.mark.slow
def test_two_processes_learn_by_torchrun_and_gloo(script: Path) -> None:
    # --standalone takes a free port, where the usual one may be another program's.
    run = ("torch.distributed.run", "--standalone", "--nproc-per-node=2")
    check([start("-m", *run, str(script))])


COMPARED = """
import json, sys
import numpy as np
from knltrain.assembly import build_dataset, build_network
from knltrain.config import load_config
from knltrain.data.order import ShardedBatches
from knltrain.input.batch_feed import FilledHere
from knltrain.network.parameters import ParameterVector
from knltrain.distributed_ops import NodeReducer, Options, SingleProcessReducer
from googlenet import GoogLeNet

rank, ranks, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
config = load_config("run.toml")
network = build_network(config)
first = ParameterVector(network)
first.initialise(config.seed)
chosen = config.optimizer
options = Options(
    "numba", winograd=False, momentum=chosen.momentum, weight_decay=chosen.weight_decay
)
reducer = SingleProcessReducer() if ranks == 1 else NodeReducer.meet(address, rank, ranks)
graph = GoogLeNet(config.train.batch // ranks, 10, reducer, options).graph
for name, values in graph.parameters.items():
    values[...] = first.views.pop(name)
assert not first.views
feed = FilledHere(
    ShardedBatches(build_dataset(config).train, config.train.batch, rank, ranks, config.seed),
    network.input_shape,
)
losses = []
for step in range(config.train.steps):
    batch = feed.take(step)
    losses.append(graph.loss(batch.images_nhwc, batch.labels, int(batch.key[0])))
    graph.backward()
    graph.step(config.learning_rate.base)
print(json.dumps(losses))
"""
GOOGLENET = """
workers = {ranks}
network = {{ name = "googlenet", classes = 10 }}
data.name = "random"
train = {{ batch = 4, steps = 3 }}
optimizer = {{ momentum = 0.9, weight_decay = 0.0002 }}
learning_rate = {{ base = 0.01, policy = "fixed" }}
backend = {{ name = "cpu", implementation = "numba", winograd = false, threads = {threads} }}
exchange.method = "sync_sgd"
evaluation = {{ every_epochs = 0, at_end = false }}
checkpoint = {{ every_epochs = 0, every_minutes = 0, at_end = false }}
"""


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2])
def test_losses_of_googlenet_are_those_of_a_run(
    tmp_path: Path, start_knltrain: Callable[..., Any], ranks: int
) -> None:
    """Each rank's losses: from the second step on they follow from the sums over all ranks."""
    (tmp_path / "googlenet.py").write_text(programs()[1], encoding="utf-8")
    (tmp_path / "run.toml").write_text(GOOGLENET.format(ranks=ranks, threads=2 // ranks))
    run = start_knltrain("train", "run.toml", cwd=tmp_path)
    _, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    address = f"test-{secrets.token_hex(6)}"
    scripts = [
        subprocess.Popen(
            [sys.executable, "-c", COMPARED, str(rank), str(ranks), address],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": f"{REPOSITORY}:{tmp_path}",
                "NUMBA_NUM_THREADS": str(2 // ranks),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    told = [script.communicate(timeout=300) for script in scripts]
    for rank, (script, (out, err)) in enumerate(zip(scripts, told, strict=True)):
        assert script.returncode == 0, err
        lines = (tmp_path / f"runs/run/metrics-{rank}.jsonl").read_text().splitlines()
        expected = [each["loss"] for each in map(json.loads, lines) if each["kind"] == "train"]
        assert len(expected) == 3
        assert json.loads(out) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("program", programs(), ids=["digits", "googlenet"])
def test_program_needs_no_network_worker_or_configuration(program: str) -> None:
    tree = ast.parse(program)
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in modules if name and name.startswith("knltrain")} <= {
        "knltrain.data.digits",
        "knltrain.distributed_ops",
        "knltrain.torch_distributed.reducer",
    }


def test_library_loads_no_framework() -> None:
    """Neither PyTorch nor the engine's own parts come along with it."""
    code = (
        "import sys, knltrain.distributed_ops\n"
        "parts = 'network', 'worker', 'config', 'launch', 'build', 'backends'\n"
        "loaded = [f'knltrain.{part}' for part in parts]\n"
        "print([name for name in ('torch', *loaded) if name in sys.modules])"
    )
    assert start("-c", code).communicate(timeout=120)[0].strip() == "[]"
