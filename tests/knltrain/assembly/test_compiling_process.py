"""The process that compiles the kernels of a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_it_tells_each_kernel_and_from_which_sources_they_are_compiled(
    config, tmp_path: Path
) -> None:
    numba = config(backend__name="cpu", backend__implementation="numba")
    request = {
        "config": numba.model_dump(mode="json"), "images": 16, "threads": 2, "copies": False,
        "cpus": sorted(os.sched_getaffinity(0)),
    }  # fmt: skip
    command = [sys.executable, "-m", "knltrain.assembly.compiling_process", str(os.getpid())]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        command, input=json.dumps(request), env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    *made, last = map(json.loads, done.stdout.splitlines())
    kernels = len(list(tmp_path.glob("*/*.kernel")))
    assert [one["done"] for one in made] == list(range(1, kernels + 1))
    readers = last["readers"]
    assert readers[str(ROOT / "vectorized_ops/numba/kernels/dense/loops.py")] < kernels
    assert all(Path(file).is_file() for file in readers)
    names = {f"{own}.kernel" for own, _ in last["kernels"]}
    assert names == {path.name for path in tmp_path.glob("*/*.kernel")}


def test_it_ends_with_the_worker_that_waits_for_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "knltrain.assembly.compiling_process", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, input="", env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
