from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from agreement import agree, channels, close, equal_with_nan, layouts, placed, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from own_process import words_of
from torch import Tensor
from torch.nn import functional

from vectorized_ops.torch import LocalResponseNorm, local_response_norm
from vectorized_ops.torch.lrn import respond

pytestmark = pytest.mark.usefixtures("many_threads")


@given(data=st.data())
@settings(max_examples=40)
def test_values_and_gradients_are_those_of_pytorch(data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 999)))
    shape = [data.draw(part) for part in (st.integers(1, 3), channels, sizes, sizes)]
    images = placed(torch.randn(shape) * 3, data.draw(layouts))
    size = data.draw(st.sampled_from([1, 2, 3, 4, 5, 9, 16, 17]))
    options = (
        data.draw(st.sampled_from([1e-4, 0.5])),
        data.draw(st.sampled_from([0.25, 0.5, 0.75, 1.0])),
        data.draw(st.sampled_from([1.0, 2.0])),
    )
    agree(
        lambda images: local_response_norm(images, size, *options),
        lambda images: functional.local_response_norm(images, size, *options),
        images,
        layout=data.draw(layouts),
    )


@pytest.mark.parametrize(("size", "beta"), [(5, 0.6), (19, 0.75)])
def test_windows_and_exponents_without_a_kernel_are_left_to_pytorch(size: int, beta: float) -> None:
    images = torch.randn(2, 25, 3, 3)
    expected = functional.local_response_norm(images, size, 0.1, beta)
    assert torch.equal(local_response_norm(images, size, 0.1, beta), expected)
    expected = functional.local_response_norm(functional.relu(images), size, 0.1, beta)
    assert torch.equal(respond(images, size, 0.1, beta, 1.0, rectify=True), expected)


@given(count=channels, size=st.sampled_from([3, 4, 5]))
@settings(max_examples=20)
def test_the_relu_before_it_can_be_taken_in_passing(count: int, size: int) -> None:
    agree(
        lambda images: respond(images, size, 0.3, 0.75, 1.0, rectify=True),
        lambda images: functional.local_response_norm(functional.relu(images), size, 0.3),
        torch.randn(2, count, 4, 4),
    )


def test_what_is_not_a_number_spoils_its_window_only() -> None:
    images = torch.ones(1, 40, 1, 2)
    images[0, 20, 0, 0] = math.nan
    images[0, 5, 0, 1] = math.inf
    equal_with_nan(
        local_response_norm(images, 5).isnan(), functional.local_response_norm(images, 5).isnan()
    )


def test_the_module_takes_the_place_of_pytorchs() -> None:
    images = torch.randn(2, 9, 3, 3)
    ours = LocalResponseNorm(3, alpha=0.2, k=2.0)
    close(ours(images), functional.local_response_norm(images, 3, alpha=0.2, k=2.0))


def test_bits_are_the_same_every_time(same_bits: Callable[..., None]) -> None:
    images = torch.randn(3, 21, 5, 5, requires_grad=True)

    def compute() -> list[Tensor]:
        out = local_response_norm(images, 5)
        return [out.detach(), *torch.autograd.grad(out.sum(), images)]

    same_bits(compute)


RACE = """
import time
import torch
from torch.nn import functional
from vectorized_ops.torch import keep_memory, local_response_norm

def seconds(operation):
    begin = time.process_time()
    operation(images, 5).backward(ones)
    return time.process_time() - begin

keep_memory()
torch.set_num_threads(1)
images = torch.randn(8, 64, 56, 56).to(memory_format=torch.channels_last).requires_grad_()
ones = torch.ones_like(images)
operations = functional.local_response_norm, local_response_norm
rounds = [[seconds(operation) for operation in operations] for _ in range(8)]
print(*map(min, zip(*rounds)))
"""
"""Least processor time of a pass, PyTorch's and ours, in memory that the process has used before:
to clear fresh pages takes the system far longer, on some machines, than the kernel needs."""


@pytest.mark.slow
def test_a_pass_forward_and_back_is_many_times_as_fast_as_pytorchs() -> None:
    theirs, ours = map(float, words_of(RACE))
    assert theirs > 8 * ours
