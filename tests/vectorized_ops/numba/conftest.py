"""Results to the last bit, and pooled convolutions with what they must give."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pytest
from contracts.bfloat16 import nearest
from contracts.kernels import check_same_bits, storing_past_the_caches, threads_kept

from vectorized_ops.bfloat16 import copy_values, widened
from vectorized_ops.layout import STORED
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.pooled_convolution import pooled_convolution
from vectorized_ops.reference.convolution import Convolution
from vectorized_ops.reference.pooling import MaxPooling
from vectorized_ops.shapes import ConvolutionShape, PoolingShape


@pytest.fixture(autouse=True)
def threads_stay_as_they_were() -> Iterator[None]:
    with threads_kept():
        yield


@pytest.fixture(scope="session")
def storing() -> Callable[[bool], AbstractContextManager[None]]:
    return storing_past_the_caches


@pytest.fixture(scope="session")
def assemblies() -> Callable[[Any], list[str]]:
    """Gives a kernel's assembly for each of the types that it has been called with."""

    def compile_again(kernel: Any) -> list[str]:
        # What comes from the cache cannot be looked into.
        again = numba.jit(kernel.signatures, **kernel.targetoptions)(kernel.py_func)
        assert again.signatures
        return list(again.inspect_asm().values())

    return compile_again


@pytest.fixture(scope="session")
def same_bits() -> Callable[..., None]:
    return check_same_bits


@dataclass
class PooledResults:
    """What a pooled convolution made of random values, and of the same in float64."""

    out: np.ndarray
    which: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    images: np.ndarray


@pytest.fixture(scope="session")
def pooled() -> Callable[..., tuple[PooledResults, PooledResults]]:
    return run_pooled


def run_pooled(
    shape: tuple[int, ...],
    filters: int,
    kernel: int,
    algorithm: str,
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    with_images: bool = True,
    slices: bool = False,
    add: bool = False,
    masked: bool = False,
    rounds: bool = False,
) -> tuple[PooledResults, PooledResults]:
    """Results found, and expected: the reference in float64, gradients for the places found.

    With `rounds` activations are of bfloat16, and what is expected of them is rounded. With
    `slices` all images but `which` are channels of wider ones. The gradient of the images is added
    to -2, and where the images are not positive it is masked.
    """
    rng, images = np.random.default_rng(sum(shape)), shape[0]
    lines, pixels = ((side - kernel + 1) // 2 for side in shape[1:3])
    shapes = [
        shape,
        (filters, shape[3], kernel, kernel),
        (filters,),
        (images, lines, pixels, filters),
    ]
    drawn = [draw(rng, size).astype(np.float32) for size in shapes]
    values, weights, bias, gradient = drawn

    operation = pooled_convolution(shape, filters, kernel, algorithm)
    assert algorithm in ("auto", operation.algorithm)
    kept = functools.partial(holding, dtype=STORED if rounds else np.dtype(np.float32))
    inputs, padded = kept(values, 1e6, slices), kept(gradient, 0, slices)
    out, which = kept(gradient, 99, slices), activations(gradient.shape, np.uint8)
    operation.forward(inputs, weights, bias, out, which)
    weights_out, bias_out = np.full_like(weights, 99), np.full_like(bias, 99)
    images_out = kept(np.full_like(values, -2 if add else 99), 99, slices)
    operation.backward(
        inputs, padded, which, weights, weights_out, bias_out, images_out if with_images else None,
        add, inputs if masked else None,
    )  # fmt: skip
    made = widened(out[:images]), which[:images], weights_out, bias_out
    found = PooledResults(*made, widened(images_out[:images]))
    expected = expected_of_pooled([array.astype(np.float64) for array in drawn], found.which)
    expected.images -= 2 * add
    expected.images[masked & (values <= 0)] = 0
    if rounds:
        expected.out, expected.images = nearest(expected.out), nearest(expected.images)
    return found, expected


def holding(
    values: np.ndarray, padding: float, slices: bool = False, *, dtype: np.dtype[Any]
) -> np.ndarray:
    *others, channels = values.shape
    array = (
        activations((*others, channels + 5), dtype)[..., 2 : 2 + channels]
        if slices
        else (activations(values.shape, dtype))
    )
    copy_values(np.full(array.shape, padding, np.float32), array)
    copy_values(values, array[: len(values)])
    return array


def expected_of_pooled(drawn: list[np.ndarray], found_which: np.ndarray) -> PooledResults:
    images, weights, bias, gradient = drawn
    filters, _, kernel, _ = weights.shape
    shape = ConvolutionShape(*images.shape, filters, (kernel, kernel))
    convolution = Convolution(shape)
    pooling = MaxPooling(PoolingShape(shape.lines, shape.pixels, (2, 2), (2, 2)))
    full = np.empty(shape.outputs)
    out, which = np.empty_like(gradient), np.empty(gradient.shape, np.uint8)
    convolution.forward(images, weights, bias, full)
    pooling.forward(full, out, which)
    spread = np.empty_like(full)
    pooling.backward(gradient, found_which, spread)
    weights_out, bias_out, images_out = map(np.empty_like, (weights, bias, images))
    convolution.backward_weights(images, spread, weights_out, bias_out)
    convolution.backward_data(spread, weights, images_out)
    return PooledResults(out, which, weights_out, bias_out, images_out)
