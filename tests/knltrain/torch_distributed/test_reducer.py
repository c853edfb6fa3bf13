"""Sums by process groups of torch.distributed, with real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knltrain.communication.oneccl import installed
from knltrain.errors import CollectiveError
from knltrain.torch_distributed.reducer import ProcessGroupReducer

from ...forked_python import start_python
from ..ranks import told_as_json

MEMBER = """
import json, os, sys, time
import numpy as np, torch.distributed as dist
import knltrain.torch_distributed
from knltrain.errors import KnltrainError
from knltrain.torch_distributed.reducer import ProcessGroupReducer

backend, scene, rank, store = sys.argv[1:]
rank = int(rank)
dist.init_process_group(backend, store=dist.FileStore(store, 2), rank=rank, world_size=2)
reducer = ProcessGroupReducer(timeout_seconds=20.0 if scene != "late" else 1.0)
assert (reducer.rank, reducer.ranks) == (rank, 2)

def tell(what):
    os.write(1, (json.dumps(what) + "\\n").encode())

first = np.full(5, rank + 1, np.float32)
reducer.start(first).wait()
if scene == "sums":
    begun = time.perf_counter()
    big, mean = np.full((300, 500), rank + 1, np.float32), np.full(3, rank + 1, np.float32)
    reductions = [reducer.start(big), reducer.start(mean, average=True)]
    ends = [reduction.wait() for reduction in reductions]
    again = [reduction.wait() for reduction in reductions]
    now = time.perf_counter()
    tell([first.tolist(), [float(big.min()), float(big.max())], mean.tolist()])
    tell(ends == again and begun < min(ends) and max(ends) <= now)
elif rank == 1 and scene == "killed":
    os.kill(os.getpid(), 9)
elif rank == 1:
    time.sleep(4)
    os._exit(0)
else:
    handle = reducer.start(np.ones(1000, np.float32))
    for _ in range(2):
        try:
            handle.wait()
        except KnltrainError as error:
            tell([type(error).__name__, str(error)])
    os._exit(0)
reducer.close()
dist.destroy_process_group()
"""
NEEDS_ONECCL = pytest.mark.skipif(installed() is None, reason="oneCCL is not installed")
BACKENDS = ["gloo", "knlshm", pytest.param("ccl", marks=NEEDS_ONECCL)]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def started(folder: Path, backend: str, scene: str) -> list[list[Any]]:
    """What the ranks print, line by line."""
    program = folder / "member.py"
    program.write_text(MEMBER, encoding="utf-8")
    members = [
        start_python([str(program), backend, scene, str(rank), str(folder / "store")])
        for rank in range(2)
    ]
    return [told_as_json(member.communicate(timeout=300)[0]) for member in members]


@pytest.mark.slow
def test_sums_and_means_are_those_of_all_ranks(tmp_path: Path, backend: str) -> None:
    for lines in started(tmp_path, backend, "sums"):
        assert lines == [[[3.0] * 5, [3.0, 3.0], [1.5] * 3], True]


@pytest.mark.slow
def test_rank_that_is_killed_is_told_of_at_every_wait(tmp_path: Path, backend: str) -> None:
    first, again = started(tmp_path, backend, "killed")[0]
    assert first == again
    assert first[0] == "PeerLost"
    assert f"by '{backend}' failed" in first[1] or "is gone" in first[1]


@pytest.mark.slow
def test_rank_that_is_late_is_waited_for_so_long(tmp_path: Path) -> None:
    first = started(tmp_path, "gloo", "late")[0][0]
    assert first[0] == "ExchangeTimeout"
    assert "all_reduce of rank 0 by 'gloo' took more than 1 s" in first[1]
    assert "longer timeout_seconds" in first[1]


def test_program_without_a_group_is_told_to_make_one() -> None:
    with pytest.raises(CollectiveError, match="init_process_group"):
        ProcessGroupReducer()
