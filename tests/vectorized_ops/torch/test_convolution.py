from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from agreement import agree, close, layouts, placed
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.torch import Conv2dReLU, conv2d_relu
from vectorized_ops.torch.convolution import rectified_convolution

pytestmark = pytest.mark.usefixtures("many_threads")


@given(data=st.data())
@settings(max_examples=40)
def test_values_and_gradients_are_those_of_pytorch(data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 999)))
    groups = data.draw(st.sampled_from([1, 1, 2]))
    inputs, filters = (groups * data.draw(st.sampled_from([1, 3, 8, 12])) for _ in range(2))
    side, kernel = (data.draw(st.integers(1, 9)) for _ in range(2))
    stride, padding, dilation = (data.draw(st.integers(low, 2)) for low in (1, 0, 1))
    assume(side + 2 * padding >= (kernel - 1) * dilation + 1)
    images = placed(torch.randn(2, inputs, side, side + 1), data.draw(layouts))
    weight = torch.randn(filters, inputs // groups, kernel, kernel)
    tensors = [images, weight, *([torch.randn(filters)] if data.draw(st.booleans()) else [])]
    window = stride, padding, dilation, groups

    def convolved(images: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return functional.conv2d(images, weight, bias, *window)

    def ours(images: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return conv2d_relu(images, weight, bias, *window)

    agree(
        ours,
        lambda *given: functional.relu(convolved(*given)),
        *tensors,
        edge=convolved,
        layout=data.draw(layouts),
        tolerance=1e-5,
    )


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_arriving_gradient_is_written_over_only_where_allowed(overwrite: bool) -> None:
    images = torch.randn(2, 5, 6, 6)
    weight = torch.randn(16, 5, 3, 3, requires_grad=True)
    window = (1, 1), (0, 0), (1, 1), 1
    out = rectified_convolution(images, weight, None, window, overwrite=overwrite)
    gradient = placed(torch.randn(out.shape), "channels_last")
    before = gradient.clone()
    out.backward(gradient)
    assert torch.equal(gradient, torch.where(out > 0, before, 0) if overwrite else before)


@pytest.mark.parametrize("frozen", ["images", "weight", "bias"])
def test_gradients_that_nobody_wants_are_left_out(frozen: str) -> None:
    tensors = {
        "images": torch.randn(2, 5, 6, 6),
        "weight": torch.randn(8, 5, 3, 3),
        "bias": torch.randn(8),
    }
    for name, tensor in tensors.items():
        tensor.requires_grad_(name != frozen)
    conv2d_relu(*tensors.values()).sum().backward()
    for name, tensor in tensors.items():
        assert (tensor.grad is None) is (name == frozen)


def test_not_a_number_stays() -> None:
    images = torch.randn(1, 3, 5, 5)
    images[0, 1, 2, 2] = math.nan
    out = conv2d_relu(images, torch.randn(4, 3, 1, 1))
    assert out[..., 2, 2].isnan().all()
    assert out.isnan().sum() == 4


def test_other_types_are_left_to_pytorch() -> None:
    images, weight = torch.randn(2, 3, 5, 5).double(), torch.randn(4, 3, 3, 3).double()
    assert torch.equal(
        conv2d_relu(images, weight), functional.relu(functional.conv2d(images, weight))
    )


@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"padding": "same"}, {"padding": 1, "padding_mode": "circular"}]
)
def test_the_module_is_a_convolution_and_a_relu(options: dict) -> None:
    ours = Conv2dReLU(3, 5, 3, **options)
    theirs = nn.Conv2d(3, 5, 3, **options)
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(2, 3, 6, 6)
    close(ours(images), functional.relu(theirs(images)))


def test_bits_are_the_same_every_time(same_bits: Callable[..., None]) -> None:
    images, weight, gradient = (
        torch.randn(size) for size in [(3, 5, 8, 8), (20, 5, 1, 1), (3, 20, 8, 8)]
    )

    def compute() -> list[Tensor]:
        bias = torch.zeros(20, requires_grad=True)
        out = conv2d_relu(images, weight, bias)
        out.backward(gradient)
        assert bias.grad is not None
        return [bias.grad]

    same_bits(compute)
