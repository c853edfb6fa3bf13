from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed import ReduceOp

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.tensors import (
    address_of,
    count_and_kind,
    memory_of,
    operation_for,
    parts_of,
    split_memory,
)
from vectorized_ops.reference.reduction import MAX, MEAN, SUM


def test_memory_of_tensors_and_of_their_parts() -> None:
    tensor = torch.zeros(4, 3)
    begin = tensor.data_ptr()
    assert memory_of(tensor[1]) == (begin + 12, 12)
    assert parts_of(tensor, 2) == [(begin, 24), (begin + 24, 24)]
    assert split_memory(tensor, [1, 0, 3], 3) == [(begin, 12), (begin + 12, 0), (begin + 12, 36)]
    assert split_memory(torch.zeros(0), [0, 0], 2)[1][1] == 0


def test_dtypes_and_operations_are_translated() -> None:
    assert count_and_kind(torch.zeros(3, dtype=torch.bool)) == (3, "uint8")
    assert count_and_kind(torch.zeros(3, dtype=torch.complex128)) == (6, "float64")
    assert operation_for(ReduceOp.SUM, torch.zeros(1)) == SUM
    assert operation_for(ReduceOp.SUM, torch.zeros(1, dtype=torch.bool)) == MAX
    assert operation_for(ReduceOp.AVG, torch.zeros(1, dtype=torch.complex64)) == MEAN


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(1, device="meta"), "got a tensor on meta in a group for those on the CPU"),
        (torch.zeros(2, 3).t(), r"of shape \(3, 2\) with strides \(1, 3\): expected a contiguous"),
        (torch.zeros(3).to_sparse(), "layout torch.sparse_coo: expected a dense one"),
    ],
)
def test_tensors_that_are_no_plain_memory_are_refused(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        address_of(tensor)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (ReduceOp.AVG, torch.int32),
        (ReduceOp.BAND, torch.float32),
        (ReduceOp.PRODUCT, torch.complex64),
        (ReduceOp.AVG, torch.bool),
        (torch.distributed._make_nccl_premul_sum(2.0), torch.float32),
    ],
)
def test_operations_without_a_meaning_are_refused(op: Any, dtype: torch.dtype) -> None:
    with pytest.raises(CollectiveError, match=f"there is no [A-Z_]+ of {dtype}"):
        operation_for(op, torch.zeros(1, dtype=dtype))


def test_refusals_come_before_anybody_waits_and_the_group_goes_on(common: Any) -> None:
    for found in (one["refused"] for one in common):
        assert "got a tensor on meta" in found["meta"]
        assert "expected one with memory of its own for each element" in found["overlapping"]
        assert "expected a dense one" in found["sparse"]
        assert "no MAX of sparse tensors: expected SUM" in found["sparse maximum"]
        assert "root 5: expected a rank of the group, 0 to 1" in found["root"]
        assert "torch has for gloo alone" in found["monitored"]
        assert all("new_group" in found[name] for name in ("split", "merged"))
        assert "use the future" in found["hook"]
        assert "got 1 tensors: expected 2, one for each rank" in found["too few"]
        assert "torch.float8_e4m3fn cannot be reduced" in found["dtype"]
        assert "there is no AVG of torch.int32" in found["mean of integers"]
        assert "there is no BAND of torch.float32" in found["bits of floats"]
        assert "cannot be divided among 2 ranks" in found["sizes"]
        assert "split sizes [1, 2]: expected 2 that add up to 4" in found["splits"]
        assert "expected the same number of elements" in found["odd"]
        assert found["after"] == [2, 2, 2]
