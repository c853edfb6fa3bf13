"""The program in docs/library.md, as a reader would run it."""

from __future__ import annotations

import ast
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from ...forked_python import REPOSITORY

TEXT = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8")
TOLD = re.compile(r"rank (\d): accuracy ([\d.]+) -> ([\d.]+), weights ([0-9a-f]{16})")


def program() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "digits.py"
    path.write_text(program(), encoding="utf-8")
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


def test_program_needs_no_network_worker_or_configuration() -> None:
    tree = ast.parse(program())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in modules if name and name.startswith("knltrain")} == {
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
