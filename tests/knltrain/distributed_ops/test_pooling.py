from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from knltrain.distributed_ops import AveragePooling, GlobalAveragePooling, MaxPooling, Options
from knltrain.errors import NetworkError
from vectorized_ops.shapes import PoolingShape

SHAPE = PoolingShape(7, 6, (3, 2), (2, 2), (1, 0))


def test_results_are_those_of_torch(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    layer = MaxPooling("pool", 3, 5, SHAPE, options)
    images, gradient = random(3, 7, 6, 5), random(*layer.outputs, seed=1)
    given = torch.tensor(images).permute(0, 3, 1, 2).requires_grad_()
    out = torch.nn.functional.max_pool2d(given, (3, 2), (2, 2), (1, 0))
    out.backward(torch.tensor(gradient).permute(0, 3, 1, 2))
    found = layer.forward(laid_out(options, images))[:3]
    np.testing.assert_array_equal(found, out.detach().permute(0, 2, 3, 1).numpy())
    down = layer.backward_data(laid_out(options, gradient))[:3]
    np.testing.assert_allclose(down, given.grad.permute(0, 2, 3, 1).numpy(), rtol=1e-6)


def test_arrays_of_other_shapes_are_refused(random: Callable[..., Any]) -> None:
    layer = MaxPooling("pool", 3, 5, SHAPE, Options("reference"))
    with pytest.raises(NetworkError, match="layer 'pool' was given images"):
        layer.forward(random(3, 7, 7, 5))


def test_cost_counts_a_comparison_per_pixel_of_each_window() -> None:
    layer = MaxPooling("pool", 3, 5, SHAPE, Options("reference"))
    outputs, inputs = 3 * 4 * 3 * 5, 3 * 7 * 6 * 5
    forward = layer.cost("forward")
    assert layer.outputs == (3, 4, 3, 5)
    assert (forward.flops, forward.memory_bytes) == (6 * outputs, 4 * (inputs + outputs) + outputs)
    assert layer.cost("backward_data").flops == outputs


def test_means_of_windows_are_those_of_torch(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    shape = PoolingShape(8, 7, (3, 2), (2, 2), (1, 0), ceil=True)
    layer = AveragePooling("pool", 3, 5, shape, options)
    images, gradient = random(3, 8, 7, 5), random(*layer.outputs, seed=1)
    given = torch.tensor(images).permute(0, 3, 1, 2).requires_grad_()
    out = torch.nn.functional.avg_pool2d(given, (3, 2), (2, 2), (1, 0), ceil_mode=True)
    out.backward(torch.tensor(gradient).permute(0, 3, 1, 2))
    found = layer.forward(laid_out(options, images))[:3]
    np.testing.assert_allclose(found, out.detach().permute(0, 2, 3, 1).numpy(), rtol=1e-5)
    down = layer.backward_data(laid_out(options, gradient))[:3]
    np.testing.assert_allclose(down, given.grad.permute(0, 2, 3, 1).numpy(), rtol=1e-5)
    assert layer.inputs == ((3, 8, 7, 5),)
    assert layer.cost("forward").flops == images.size


def test_means_of_maps_are_those_of_torch(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    layer = GlobalAveragePooling("pool", (3, 8, 7, 5), options)
    images, gradient = random(3, 8, 7, 5), random(3, 5, seed=1)
    found = layer.forward(laid_out(options, images))[:3]
    np.testing.assert_allclose(found, images.mean(axis=(1, 2)), rtol=1e-4, atol=1e-6)
    down = layer.backward_data(laid_out(options, gradient))[:3]
    expected = np.broadcast_to(gradient[:, None, None] / 56, images.shape)
    np.testing.assert_allclose(down, expected, rtol=1e-6)
    assert (layer.outputs, layer.cost("forward").flops) == ((3, 5), images.size)
