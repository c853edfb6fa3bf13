from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import AllreduceOptions
from torch.distributed import ReduceOp

from knltrain.torch_distributed.forms import takes

from . import calls


class Group:
    @takes(AllreduceOptions, "tensors[] opts", "tensors[] op timeout", "tensor[0] op timeout")
    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> tuple[int, Any]:
        return len(tensors), opts.reduceOp


def test_every_form_of_call_that_gloo_takes_is_taken(common: Any) -> None:
    found = list(calls.forms())
    assert {form.method for form in found} > {"allreduce", "gather", "send", "barrier"}
    assert len(found) > 20
    assert [one["calls"] for one in common] == [[], []]


def test_calls_are_arranged_as_in_the_first_form() -> None:
    group, one = Group(), torch.ones(1)
    options = AllreduceOptions()
    options.reduceOp = ReduceOp.MAX
    assert group.allreduce([one, one]) == (2, ReduceOp.SUM)
    assert group.allreduce(one) == (1, ReduceOp.SUM)
    for call in (
        group.allreduce([one], options),
        group.allreduce([one], opts=options),
        group.allreduce([one], ReduceOp.MAX),
        group.allreduce(tensor=one, op=ReduceOp.MAX, timeout=None),
    ):
        assert call == (1, ReduceOp.MAX)


def test_call_of_no_form_is_told_of_all_forms(common: Any) -> None:
    with pytest.raises(TypeError) as caught:
        Group().allreduce([torch.ones(1)], 3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "allreduce([Tensor], int): expected allreduce(tensors, opts); allreduce(tensors, op, "
        "timeout); allreduce(tensor, op, timeout)"
    )
    for one in common:
        assert one["wrong call"].startswith("reduce(Tensor, str): expected reduce(tensors, opts);")
