"""What PyTorch builds on process groups, on each of our backends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
PROGRAM = """
import os
import torch, torch.distributed as dist
import knltrain.torch_distributed
dist.init_process_group(os.environ["BACKEND"])
tensor = torch.full((4,), dist.get_rank() + 1.0)
dist.all_reduce(tensor)
line = f"{dist.get_backend()} {dist.group.WORLD.group_name} {tensor.tolist()}\\n"
os.write(1, line.encode())  # in one go: both ranks write to one pipe
dist.destroy_process_group()
"""


def test_losses_of_ddp_are_those_of_gloo(common: Any) -> None:
    for found in (one["losses"] for one in common):
        assert found["ours plain"] == found["gloo plain"]


@pytest.mark.slow
def test_losses_of_ddp_in_all_its_kinds_are_those_of_gloo(start: Any) -> None:
    results = start("parallel").results()
    assert results[0]["many powers"] == results[1]["many powers"]
    for found in results:
        assert found["full"]
        kinds = {name.partition(" ")[2] for name in found if name.startswith("gloo")}
        assert len(kinds) == 10
        for kind in kinds:
            assert found[f"ours {kind}"] == found[f"gloo {kind}"], kind


@pytest.mark.slow
def test_sharded_training_is_that_of_one_process(start: Any) -> None:
    for found in start("sharded").results():
        assert found["losses"] == pytest.approx(found["alone"], rel=1e-4)
        assert found["kept"]
        assert found["kept meanwhile"]


@pytest.mark.slow
def test_program_under_torchrun(tmp_path: Path, backend: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", str(program)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "BACKEND": backend},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{backend} 0 [3.0, 3.0, 3.0, 3.0]") == 2
