from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from knltrain.distributed_ops import Convolution, NodeReducer, Options, SingleProcessReducer
from knltrain.errors import NetworkError
from vectorized_ops.shapes import ConvolutionShape

PLAIN = ConvolutionShape(5, 9, 8, 6, 8, (3, 3), padding=(1, 1))
STRIDED = ConvolutionShape(3, 11, 11, 2, 5, (5, 3), (2, 1), (2, 0))
GROUPED = ConvolutionShape(4, 6, 6, 8, 12, (3, 3), groups=4)
SHAPES = [PLAIN, STRIDED, GROUPED]


def by_torch(layer: Convolution, images: Any, gradient: Any) -> dict[str, Any]:
    """Outputs and gradients of the same layer in PyTorch, in our index order."""
    shape = layer.shape
    given = torch.tensor(images).permute(0, 3, 1, 2).requires_grad_()
    weights = torch.tensor(layer.parameters["weights"]).requires_grad_()
    bias = None
    if "bias" in layer.parameters:
        bias = torch.tensor(layer.parameters["bias"]).requires_grad_()
    out = torch.conv2d(
        given, weights, bias, shape.stride, shape.padding, shape.dilation, shape.groups
    )
    out.backward(torch.tensor(gradient).permute(0, 3, 1, 2))
    return {
        "out": out.detach().permute(0, 2, 3, 1).numpy(),
        "images": given.grad.permute(0, 2, 3, 1).numpy(),
        "weights": weights.grad.numpy(),
        "bias": None if bias is None else bias.grad.numpy(),
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("bias", "chunks"), [(True, 1), (True, 3), (False, 4)])
def test_results_are_those_of_torch(
    options: Options,
    shape: ConvolutionShape,
    bias: bool,
    chunks: int,
    laid_out: Callable[..., Any],
    random: Callable[..., Any],
) -> None:
    layer = Convolution("conv", shape, SingleProcessReducer(), options, bias=bias, chunks=chunks)
    if bias:
        layer.parameters["bias"][...] = random(shape.filters, seed=3)
    images, gradient = random(*shape.inputs), random(*shape.outputs, seed=1)
    expected = by_torch(layer, images, gradient)
    given, above = laid_out(options, images), laid_out(options, gradient)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(layer.forward(given)[: len(images)], expected["out"], **close)
    gradients = layer.backward_weights(given, above).wait()
    np.testing.assert_allclose(gradients["weights"], expected["weights"], **close)
    if bias:
        np.testing.assert_allclose(gradients["bias"], expected["bias"], **close)
    down = layer.backward_data(above)[: len(images)]
    np.testing.assert_allclose(down, expected["images"], **close)


def test_chunks_have_the_values_of_the_whole(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    images, gradient = random(*PLAIN.inputs), random(*PLAIN.outputs, seed=1)
    given, above = laid_out(options, images), laid_out(options, gradient)
    found = []
    for chunks in (1, 2):
        layer = Convolution("conv", PLAIN, SingleProcessReducer(), options, chunks=chunks)
        found.append(layer.backward_weights(given, above).wait()["weights"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunks", [1, 3])
def test_sum_over_ranks_is_the_gradient_of_the_whole_batch(
    in_ranks: Callable[..., list[Any]],
    laid_out: Callable[..., Any],
    random: Callable[..., Any],
    chunks: int,
) -> None:
    options = Options(implementation="reference", average=False)
    shape = replace(PLAIN, images=8)
    images, gradient = random(*shape.inputs), random(*shape.outputs, seed=1)
    whole = (
        Convolution("conv", shape, SingleProcessReducer(), options)
        .backward_weights(images, gradient)
        .wait()
    )

    def work(reducer: NodeReducer) -> dict[str, Any]:
        layer = Convolution("conv", replace(shape, images=4), reducer, options, chunks=chunks)
        mine = slice(4 * reducer.rank, 4 * reducer.rank + 4)
        handle = layer.backward_weights(images[mine], gradient[mine])
        return {name: values.copy() for name, values in handle.wait().items()}

    first, second = in_ranks(2, work)
    for name, values in whole.items():
        np.testing.assert_allclose(first[name], values, rtol=1e-5, atol=1e-4)
        assert first[name].tobytes() == second[name].tobytes()


def test_gradient_travels_in_chunks_that_cover_it_and_the_bias_goes_last(
    holding: Any, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    options = Options(implementation="reference")
    layer = Convolution("conv", PLAIN, holding, options, chunks=3)
    layer.backward_weights(random(*PLAIN.inputs), random(*PLAIN.outputs))
    row = 6 * 9
    assert [values.size for values in holding.values] == [2 * row, 3 * row, 3 * row + 16]
    assert np.shares_memory(holding.values[2], layer.gradients["bias"])


def test_first_chunk_is_under_way_before_the_second_is_computed(
    holding: Any, random: Callable[..., Any]
) -> None:
    layer = Convolution("conv", PLAIN, holding, Options(implementation="reference"), chunks=2)
    layer.gradients["weights"].fill(np.nan)
    seen = []
    start = holding.start

    def look(values: Any, average: bool) -> Any:
        seen.append(np.isnan(layer.gradients["weights"]).any(axis=(1, 2, 3)).tolist())
        return start(values, average)

    holding.start = look
    layer.backward_weights(random(*PLAIN.inputs), random(*PLAIN.outputs))
    assert seen == [[False] * 4 + [True] * 4, [False] * 8]


@pytest.mark.parametrize("chunks", [0, 9])
def test_chunks_that_cannot_be_are_refused(chunks: int) -> None:
    with pytest.raises(NetworkError, match=f"'conv' cannot reduce its gradient in {chunks} chunks"):
        Convolution("conv", PLAIN, SingleProcessReducer(), Options("reference"), chunks=chunks)


def test_arrays_of_other_shapes_are_refused(random: Callable[..., Any]) -> None:
    layer = Convolution("conv", PLAIN, SingleProcessReducer(), Options("reference"))
    images, gradient = random(*PLAIN.inputs), random(*PLAIN.outputs)
    for call in (
        lambda: layer.forward(images[:3]),
        lambda: layer.forward(images.astype(np.float64)),
        lambda: layer.backward_data(images),
        lambda: layer.backward_weights(images, images),
        lambda: layer.backward_weights(gradient, gradient),
    ):
        with pytest.raises(NetworkError, match="layer 'conv' was given"):
            call()


def test_cost_has_the_formulas_of_the_thesis(holding: Any) -> None:
    layer = Convolution("conv", PLAIN, holding, Options("reference"))
    flops = 2 * 5 * 8 * 6 * 9 * 9 * 8
    memory = 4 * (5 * 9 * 8 * 6 + 8 * 6 * 9 + 5 * 9 * 8 * 8)
    for direction in ("forward", "backward_data"):
        cost = layer.cost(direction)
        assert (cost.flops, cost.memory_bytes, cost.wire_bytes) == (flops, memory, 0)
    cost = layer.cost("backward_weights")
    assert (cost.flops, cost.memory_bytes) == (flops, memory)
    assert (cost.wire_bytes, cost.wire_steps) == (4 * (8 * 6 * 9 + 16), 2)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True])
def test_tuned_kernels_may_be_cut_into_chunks_too(
    laid_out: Callable[..., Any], random: Callable[..., Any], bias: bool
) -> None:
    options = Options()
    layer = Convolution("conv", PLAIN, SingleProcessReducer(), options, bias=bias, chunks=2)
    images, gradient = random(*PLAIN.inputs), random(*PLAIN.outputs, seed=1)
    given, above = laid_out(options, images), laid_out(options, gradient)
    found = layer.backward_weights(given, above).wait()
    expected = by_torch(layer, images, gradient)
    np.testing.assert_allclose(found["weights"], expected["weights"], rtol=1e-3, atol=1e-3)
