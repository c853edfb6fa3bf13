from __future__ import annotations

import math

import pytest
import torch
from agreement import agree, channels, layouts, placed, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from vectorized_ops.torch import concatenate
from vectorized_ops.torch.branches import hand_out, join_branches

pytestmark = pytest.mark.usefixtures("many_threads")


@given(data=st.data())
@settings(max_examples=40)
def test_branches_are_rectified_joined_and_handed_to_several(data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 999)))
    number, height, width = (data.draw(size) for size in (st.integers(1, 3), sizes, sizes))
    counts = data.draw(st.lists(channels, min_size=1, max_size=4))
    parts = [
        placed(torch.randn(number, count, height, width), data.draw(layouts)) for count in counts
    ]
    rectify = [data.draw(st.booleans()) for _ in counts]
    takers = data.draw(st.integers(1, 4))

    def ours(*parts: Tensor) -> Tensor:
        outs = join_branches(parts, rectify, takers)
        return torch.stack([out * (i + 1) for i, out in enumerate(outs)]).sum(0)

    def theirs(*parts: Tensor) -> Tensor:
        given = [functional.relu(p) if flag else p for p, flag in zip(parts, rectify, strict=True)]
        return torch.cat(given, 1) * sum(range(1, takers + 1))

    agree(ours, theirs, *parts, layout=data.draw(layouts))


@pytest.mark.parametrize("takers", [1, 2, 5])
def test_what_is_handed_out_comes_back_summed(takers: int) -> None:
    def ours(images: Tensor) -> Tensor:
        return torch.stack([out * (i + 1) for i, out in enumerate(hand_out(images, takers))]).sum(0)

    agree(ours, lambda images: images * sum(range(1, takers + 1)), torch.randn(2, 19, 3, 4))


def test_outputs_that_nobody_takes_give_no_gradient() -> None:
    images = torch.randn(2, 3, 4, 4, requires_grad=True)
    for outs in (hand_out(images, 3), join_branches([images, images], (False, True), 3)):
        (gradient,) = torch.autograd.grad(outs[1].sum(), images, retain_graph=True)
        assert gradient.abs().sum() > 0
        unused = torch.autograd.grad(outs[0].sum() * 0 + images.sum(), images)[0]
        assert torch.equal(unused, torch.ones_like(images))


def test_not_a_number_passes_both_ways() -> None:
    images = torch.randn(1, 17, 2, 2)
    images[0, 16, 1, 1] = math.nan
    images.requires_grad_()
    (out,) = join_branches([images], [True])
    assert out.isnan().sum() == 1
    (gradient,) = torch.autograd.grad(out, images, torch.full_like(out, math.nan))
    assert torch.equal(gradient.isnan(), (images > 0) | images.isnan())


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_other_types_are_left_to_pytorch(dtype: torch.dtype) -> None:
    parts = [torch.ones(1, count, 2, 2, dtype=dtype) for count in (2, 3)]
    assert torch.equal(concatenate(parts), torch.cat(parts, 1))
    assert hand_out(parts[0], 2)[1] is parts[0]


def test_branches_that_do_not_fit_are_refused_as_by_pytorch() -> None:
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        concatenate([torch.randn(1, 2, 3, 3), torch.randn(1, 2, 4, 3)])
