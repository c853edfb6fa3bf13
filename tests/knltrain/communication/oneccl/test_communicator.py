from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.communication.oneccl import installed

pytestmark = pytest.mark.skipif(installed() is None, reason="oneCCL is not installed")

ALONE = """
import numpy as np
from knltrain.errors import CollectiveError
from knltrain.communication.oneccl import Communicator, communicator, unique_id
from vectorized_ops.reference.reduction import MEAN

communicator.OPERATIONS[MEAN] = 4  # which its CPU plugin has not
one = Communicator(0, 1, unique_id())
vector = np.full(5, 3, np.float32)
one.all_reduce(vector.ctypes.data, 5, "float32")
assert np.all(vector == 3)
for attempt, said in (
    (lambda: Communicator(7, 1, unique_id()), "rank 7 of 1: expected one of 0 to 0"),
    (lambda: one.all_reduce(vector.ctypes.data, 5, "float32", MEAN), "AllReduce of oneCCL failed"),
):
    try:
        attempt()
    except CollectiveError as error:
        assert said in str(error), error
    else:
        raise SystemExit(said)
"""

TWO = """
import sys, time
from pathlib import Path
import numpy as np
from knltrain.communication.oneccl import Communicator, unique_id
from vectorized_ops.reference.reduction import MAX, MIN, PRODUCT, SUM

rank, file = int(sys.argv[1]), Path(sys.argv[2])
if rank == 0:
    part = file.with_suffix(".part")
    part.write_bytes(unique_id())
    part.rename(file)
while not file.exists():
    time.sleep(0.01)
both = Communicator(rank, 2, file.read_bytes())

def address(array):
    return array.ctypes.data

for operation, expected in ((SUM, 7), (PRODUCT, 12), (MAX, 4), (MIN, 3)):
    for kind in ("float32", "float64", "int8", "uint8", "int32", "int64", "float16"):
        numbers = np.full(70, rank + 3, kind)
        both.all_reduce(address(numbers), 70, kind, operation)
        assert np.all(numbers == expected), (operation, kind)
source, target = np.arange(6, dtype=np.float32) + rank, np.zeros(6, np.float32)
both.reduce(address(source), address(target), 6, "float32", SUM, 1)
assert target.tolist() == ([1, 3, 5, 7, 9, 11] if rank else [0] * 6)
assert source[0] == rank
both.reduce_scatter(address(source), address(target), 3, "float32", SUM)
assert target[:3].tolist() == ([7, 9, 11] if rank else [1, 3, 5])
both.broadcast(address(source), source.nbytes, 1)
assert source[0] == 1
own = np.full(2, rank + 1, np.int64)
all_ = np.zeros(4, np.int64)
both.all_gather(address(own), address(all_), own.nbytes)
assert all_.tolist() == [1, 1, 2, 2]
given, taken = np.array([rank, rank + 10], np.int64), np.zeros(2, np.int64)
both.all_to_all(address(given), address(taken), 8)
assert taken.tolist() == [10 * rank, 10 * rank + 1]
both.all_reduce(0, 0, "float32")  # nothing, without a meeting
"""


def _start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_rank_alone_adds_up_its_own() -> None:
    alone = _start(ALONE)
    _, said = alone.communicate(timeout=60)
    assert alone.returncode == 0, said


def test_two_ranks_reduce_and_move(tmp_path: Path) -> None:
    ranks = [_start(TWO, str(rank), str(tmp_path / "id")) for rank in range(2)]
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
