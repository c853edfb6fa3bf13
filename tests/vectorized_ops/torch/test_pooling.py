from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from agreement import agree, channels, equal_with_nan, layouts, placed, sizes
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.torch import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    MaxPool2d,
    adaptive_avg_pool2d,
    avg_pool2d,
    max_pool2d,
)
from vectorized_ops.torch.pooling import take_largest

pytestmark = pytest.mark.usefixtures("many_threads")


def draw_images(data: st.DataObject) -> Tensor:
    torch.manual_seed(data.draw(st.integers(0, 999)))
    shape = [data.draw(part) for part in (st.integers(1, 3), channels, sizes, sizes)]
    values = torch.randint(-3, 4, shape).float()  # ties are frequent
    return placed(values, data.draw(layouts))


def draw_window(data: st.DataObject, images: Tensor) -> tuple:
    """Kernel, stride, padding and ceil_mode that fit the images."""
    kernel = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride = data.draw(st.none() | st.tuples(st.integers(1, 3), st.integers(1, 3)))
    padding = tuple(data.draw(st.integers(0, extent // 2)) for extent in kernel)
    for axis in range(2):
        assume(images.shape[2 + axis] + 2 * padding[axis] >= kernel[axis])
    return kernel, stride, padding, data.draw(st.booleans())


@given(data=st.data())
@settings(max_examples=60)
def test_maxima_and_their_gradients_are_those_of_pytorch(data: st.DataObject) -> None:
    images = draw_images(data)
    kernel, stride, padding, ceil = draw_window(data, images)
    agree(
        lambda images: max_pool2d(images, kernel, stride, padding, ceil),
        lambda images: functional.max_pool2d(images, kernel, stride, padding, 1, ceil),
        images,
        layout=data.draw(layouts),
    )


@given(data=st.data())
@settings(max_examples=30)
def test_the_relu_before_maxima_can_be_taken_in_passing(data: st.DataObject) -> None:
    images = draw_images(data) + 0.5  # no zero, where derivatives may differ
    kernel, stride, padding, ceil = draw_window(data, images)
    agree(
        lambda images: take_largest(images, kernel, stride, padding, ceil, rectify=True),
        lambda images: functional.max_pool2d(
            functional.relu(images), kernel, stride, padding, 1, ceil
        ),
        images,
    )


@given(data=st.data())
@settings(max_examples=60)
def test_means_and_their_gradients_are_those_of_pytorch(data: st.DataObject) -> None:
    images = draw_images(data)
    options = (
        *draw_window(data, images),
        data.draw(st.booleans()),
        data.draw(st.none() | st.integers(1, 5)),
    )
    agree(
        lambda images: avg_pool2d(images, *options),
        lambda images: functional.avg_pool2d(images, *options),
        images,
        layout=data.draw(layouts),
    )


@given(data=st.data())
@settings(max_examples=20)
def test_means_of_whole_maps_are_those_of_pytorch(data: st.DataObject) -> None:
    agree(
        lambda images: adaptive_avg_pool2d(images, 1),
        lambda images: functional.adaptive_avg_pool2d(images, 1),
        draw_images(data),
    )


def test_not_a_number_is_the_largest_and_infinities_are_numbers() -> None:
    images = torch.full((1, 20, 4, 4), -math.inf)
    images[0, 3, 1, 1], images[0, 4, 0, 0], images[0, 5, 3, 3] = math.nan, math.inf, 1.0
    images.requires_grad_()
    out, expected = max_pool2d(images, 2, padding=1), functional.max_pool2d(images, 2, padding=1)
    equal_with_nan(out, expected)
    ours, theirs = (torch.autograd.grad(pool.sum(), images)[0] for pool in (out, expected))
    assert torch.equal(ours, theirs)


def test_what_kernels_cannot_do_is_left_to_pytorch() -> None:
    images = torch.randn(1, 2, 20, 20)
    assert torch.equal(max_pool2d(images, 17), functional.max_pool2d(images, 17))
    double = images.double()
    assert torch.equal(avg_pool2d(double, 3), functional.avg_pool2d(double, 3))
    assert torch.equal(adaptive_avg_pool2d(images, 7), functional.adaptive_avg_pool2d(images, 7))
    found = take_largest(images, 17, rectify=True)
    assert torch.equal(found, functional.max_pool2d(functional.relu(images), 17))


@pytest.mark.parametrize(("kernel", "padding"), [(3, 2), (30, 0)])
def test_impossible_windows_are_refused_as_by_pytorch(kernel: int, padding: int) -> None:
    for pool in (max_pool2d, avg_pool2d):
        with pytest.raises(RuntimeError, match=r"pad should|[Oo]utput size is too small"):
            pool(torch.randn(1, 2, 8, 8), kernel, padding=padding)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (MaxPool2d(3, 2, 1), nn.MaxPool2d(3, 2, 1)),
        (MaxPool2d(2, dilation=2), nn.MaxPool2d(2, dilation=2)),
        (AvgPool2d(3, 1, 1, count_include_pad=False), nn.AvgPool2d(3, 1, 1, False, False)),
        (AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d(1)),
        (AdaptiveAvgPool2d((2, 3)), nn.AdaptiveAvgPool2d((2, 3))),
    ],
)
def test_modules_take_the_place_of_pytorchs(ours: nn.Module, theirs: nn.Module) -> None:
    images = torch.randn(2, 19, 9, 9)
    torch.testing.assert_close(ours(images), theirs(images))


def test_a_module_that_returns_places_still_does() -> None:
    images = torch.randn(2, 3, 6, 6)
    found, expected = (pool(2, return_indices=True)(images) for pool in (MaxPool2d, nn.MaxPool2d))
    assert torch.equal(found[1], expected[1])


def test_bits_are_the_same_every_time(same_bits: Callable[..., None]) -> None:
    images = torch.randn(3, 21, 7, 7, requires_grad=True)

    def compute() -> list[Tensor]:
        out = avg_pool2d(max_pool2d(images, 3, 1, 1), 3, 2)
        return [out.detach(), *torch.autograd.grad(out.sum(), images)]

    same_bits(compute)
