"""What `OnecclCollectives` does beside oneCCL's calls, which the cases of all backends try."""

from __future__ import annotations

import ctypes
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.distributed as dist

from knltrain.errors import CollectiveError, KnltrainError, PeerLost
from knltrain.torch_distributed.ccl.collectives import OnecclCollectives
from vectorized_ops.reference.reduction import MEAN, OR, SUM


class Doubling:
    """A communicator of two ranks that both have the same."""

    rank, ranks = 0, 2

    def __init__(self) -> None:
        self.calls: list[str] = []

    def all_reduce(self, address: int, count: int, kind: str, operation: int = SUM) -> None:
        self.calls.append(f"{count} {kind}")
        array = _array(address, count, kind)
        array += array

    def reduce(self, source: int, target: int, count: int, kind: str, *_: int) -> None:
        assert target == source
        self.all_reduce(source, count, kind)


class Gloo:
    """What is asked of gloo."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.lost: KnltrainError | None = None
        self.broken = False

    def failure(self) -> KnltrainError | None:
        return self.lost

    def wait(self) -> None:
        if self.broken:
            raise RuntimeError("Connection closed by peer")

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, arguments[-1]))
            return SimpleNamespace(wait=self.wait)

        return call


def _array(address: int, count: int, kind: str) -> npt.NDArray[Any]:
    dtype = np.dtype(kind)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype)


@pytest.fixture
def collectives() -> tuple[OnecclCollectives, Doubling, Gloo]:
    communicator, gloo = Doubling(), Gloo()
    made: Any = communicator
    return OnecclCollectives(made, gloo, 5, gloo.failure), communicator, gloo


def test_mean_is_a_sum_that_is_divided(collectives: Any) -> None:
    ours, communicator, _ = collectives
    numbers = np.full(3, 4, np.float32)
    ours.all_reduce(numbers.ctypes.data, 3, "float32", MEAN)
    assert numbers.tolist() == [4, 4, 4]
    ours.reduce(numbers.ctypes.data, 3, "float32", MEAN, 0)
    assert numbers.tolist() == [4, 4, 4]
    assert communicator.calls == ["3 float32"] * 2


def test_bitwise_reductions_go_by_gloo_with_the_limit_of_the_call(collectives: Any) -> None:
    ours, communicator, gloo = collectives
    numbers = np.full(3, 4, np.int32)
    ours.all_reduce(numbers.ctypes.data, 3, "int32", OR, 7)
    ours.all_reduce(numbers.ctypes.data, 3, "int32", OR)
    assert not communicator.calls
    assert [name for name, _ in gloo.calls] == ["allreduce"] * 2
    limits = [options.timeout for _, options in gloo.calls]
    assert limits == [timedelta(seconds=6.5), timedelta(seconds=4.5)]  # before the lane's
    assert gloo.calls[0][1].reduceOp == dist.ReduceOp.BOR


def test_kinds_that_oneccl_has_not_are_refused(collectives: Any) -> None:
    ours, communicator, _ = collectives
    with pytest.raises(CollectiveError, match="does not reduce int16: expected one of int8, uint8"):
        ours.all_reduce(0, 1, "int16", SUM)
    assert not communicator.calls


def test_parts_that_lie_apart_are_put_in_a_row(collectives: Any) -> None:
    ours, communicator, _ = collectives
    given = [torch.full((2,), 1.0), torch.full((2,), 2.0)]
    target = torch.zeros(2)

    def reduce_scatter(source: int, out: int, count: int, kind: str, operation: int) -> None:
        communicator.calls.append(str(_array(source, 2 * count, kind).tolist()))

    communicator.reduce_scatter = reduce_scatter
    addresses = [tensor.data_ptr() for tensor in given]
    ours.reduce_scatter(addresses, target.data_ptr(), 2, "float32", SUM)
    whole = torch.tensor([3.0, 3.0, 4.0, 4.0])
    row = [whole.data_ptr(), whole.data_ptr() + 8]
    ours.reduce_scatter(row, target.data_ptr(), 2, "float32", SUM)
    assert communicator.calls == ["[1.0, 1.0, 2.0, 2.0]", "[3.0, 3.0, 4.0, 4.0]"]


def test_what_gloo_fails_with_is_told_as_what_the_watch_knows(collectives: Any) -> None:
    ours, _, gloo = collectives
    numbers = np.full(3, 4, np.int32)
    gloo.broken = True
    with pytest.raises(CollectiveError, match=r"allreduce by gloo failed, .* closed by peer"):
        ours.all_reduce(numbers.ctypes.data, 3, "int32", OR)
    gloo.lost = PeerLost("rank 1 is gone")
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        ours.all_reduce(numbers.ctypes.data, 3, "int32", OR)
