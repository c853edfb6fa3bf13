"""Fused kernels: the roundings of the definitions, and code without detours for every GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from vectorized_ops.device.groups import fused_kernels

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("fused_steps.py")
needs_triton = pytest.mark.skipif(
    find_spec("triton") is None,
    reason="no Triton: PyTorch's builds for GPUs bring it, others do not (pip install triton)",
)


def told(what: str, tmp_path: Path, **variables: str) -> Any:
    """What the program prints; it reads `TRITON_INTERPRET` when kernels are defined."""
    own = {"PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)), "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, PROGRAM, what],
        capture_output=True,
        text=True,
        env={**os.environ, **own, **variables},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_triton
@pytest.mark.slow
def test_every_update_has_the_bits_of_its_definition(tmp_path: Path) -> None:
    found = told("steps", tmp_path, TRITON_INTERPRET="1")
    assert len(found) == 2 * (4 + 1 + 1 + 8) + 1
    far = {name: difference for name, difference in found.items() if difference != 0}
    assert all(name.startswith("lars") and far[name] < 1e-6 for name in far)  # by its norms


@needs_triton
@pytest.mark.slow
def test_code_for_every_chip_loads_fours_and_contracts_nothing(tmp_path: Path) -> None:
    found = told("compiled", tmp_path)
    assert len(found) == 16 + 4 + 3 * 8 + 1
    for name, facts in found.items():
        assert facts["fours"] >= (2 if name.startswith("elastic") else 3)
        assert facts["local"] == facts["contracted"] == 0


def test_there_are_none_for_the_host() -> None:
    assert fused_kernels(torch.device("cpu")) is None
