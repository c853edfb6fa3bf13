from __future__ import annotations

from typing import Any

import pytest
import torch

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.staging import Staging


def test_contiguous_tensors_stand_for_themselves() -> None:
    staging, tensor = Staging(), torch.ones(3, 2)
    assert staging.read(tensor) is tensor
    assert staging.all_written([tensor])[0] is tensor


def test_others_are_copied_when_the_operation_begins_and_ends() -> None:
    staging, whole = Staging(), torch.zeros(3, 4)
    read, written = whole.t()[:2], whole.t()[2:]
    copies = staging.read(read), staging.written(written)
    assert all(copy.is_contiguous() for copy in copies)
    whole.copy_(torch.arange(12).reshape(3, 4))  # what an operation before it may do
    staging.fill()
    assert torch.equal(copies[0], read)
    assert torch.equal(copies[1], written)
    for copy in copies:
        copy.zero_()
    staging.give_back()
    assert whole.tolist() == [[0, 1, 0, 0], [4, 5, 0, 0], [8, 9, 0, 0]]


def test_parameters_and_tensors_of_inference_are_given_back() -> None:
    parameter = torch.nn.Parameter(torch.ones(3, 4).t())
    with torch.inference_mode():
        inferred = torch.ones(3, 4).t()
    staging = Staging()
    for copy in staging.all_written([parameter, inferred]):
        copy.fill_(2)
    staging.give_back()
    assert parameter.sum() == inferred.sum() == 24


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(3, 1).expand(3, 4), r"strides \(1, 0\) to be written"),
        (torch.zeros(3, 2).to_sparse(), "layout torch.sparse_coo: expected a dense one"),
        (torch.zeros(3, 2, device="meta").t(), "got a tensor on meta"),
    ],
)
def test_what_cannot_be_written_is_refused(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        Staging().written(tensor)


def test_tensors_that_lie_in_another_order_at_each_rank_are_exchanged_by_element(
    common: Any, differences: Any
) -> None:
    assert differences(common, {"strided"}) == []
