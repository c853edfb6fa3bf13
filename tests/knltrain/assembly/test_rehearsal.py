"""What a run's workers do in a step and between steps, done by one process before them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.assembly.rehearsal import exchange_once

ROOT = Path(__file__).parents[3]
NOTE = """
import sys
from knltrain.assembly.rehearsal import exchange_once
from knltrain.config import RunConfig
from vectorized_ops.numba.compiling.recording import recording
with recording() as recorder:
    exchange_once(RunConfig.model_validate_json(sys.argv[1]))
print(*(wanted.told[0] for wanted in recorder.wanted))
"""
NUMBA = {"backend__name": "cpu", "backend__implementation": "numba"}


@pytest.mark.parametrize("method", ["sync_sgd", "sync_easgd", "seasgd", "easgd", "caffegpi"])
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_exchange_once(config, method: str, workers: int) -> None:
    exchange_once(config(exchange__method=method, workers=workers))


def test_exchange_of_a_worker_alone_ends_without_its_kernels(config, tmp_path: Path) -> None:
    """As in the process that compiles, which only notes them."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            NOTE,
            config(exchange__method="sync_sgd", workers=1, **NUMBA).model_dump_json(),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {"publish_and_read", "one_for_all"} <= set(done.stdout.split())
