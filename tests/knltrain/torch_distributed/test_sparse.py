from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed import ReduceOp

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.sparse import check_sparse


def test_sums_of_sparse_tensors_are_those_of_gloo(common: Any, differences: Any) -> None:
    assert differences(common, {"sparse"}) == []


@pytest.mark.slow
def test_sums_of_sparse_tensors_of_three_ranks_are_those_of_gloo(
    every_case: Any, differences: Any
) -> None:
    assert differences(every_case, {"sparse"}) == []


def test_tensors_of_several_kinds_are_refused() -> None:
    check_sparse(torch.zeros(3).to_sparse(), ReduceOp.SUM)
    with pytest.raises(CollectiveError, match=r"layout torch\.strided on cpu"):
        check_sparse(torch.zeros(3), ReduceOp.SUM)
