from __future__ import annotations

import math

import pytest
import torch
from agreement import agree, channels, equal_with_nan, layouts, placed, sizes
from hypothesis import given, settings
from torch.nn import functional

from vectorized_ops.torch import ReLU, relu

pytestmark = pytest.mark.usefixtures("many_threads")


@given(
    number=sizes, count=channels, height=sizes, width=sizes, layout=layouts, arriving=layouts
)  # fmt: skip
@settings(max_examples=30)
def test_values_and_gradients_are_those_of_pytorch(
    number: int, count: int, height: int, width: int, layout: str, arriving: str
) -> None:
    images = placed(torch.randn(number, count, height, width), layout)
    agree(relu, functional.relu, images, layout=arriving, tolerance=0)


def test_strange_values_stay_what_they_are() -> None:
    images = torch.tensor([math.nan, math.inf, -math.inf, 1e-45, -1e-45, 0.0]).view(1, 6, 1, 1)
    images.requires_grad_()
    out = relu(images)
    equal_with_nan(out, functional.relu(images))
    out.backward(torch.ones_like(out))
    assert images.grad is not None
    assert images.grad.flatten().tolist() == [1, 1, 0, 1, 0, 0]


def test_what_is_no_image_is_left_to_pytorch() -> None:
    values = torch.tensor([-1.0, 2.0])
    assert relu(values).tolist() == [0, 2]
    assert ReLU()(values.double()).tolist() == [0, 2]
