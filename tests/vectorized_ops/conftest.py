"""What every implementation of an operation must do; `numba/` and `onednn/` run these checks.

Values are small whole numbers wherever the arithmetic is linear: float32 is exact on them in any
order of summation, so implementations must agree to the last bit, and ties are frequent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st

from vectorized_ops.implementations import Operations, operations

GARBAGE = 1e6
"""What lies in images that only fill up a vector, as after another batch."""

REFERENCE = operations("reference")

Draw: TypeAlias = Callable[[st.SearchStrategy[int]], int]
Contract: TypeAlias = Callable[..., None]


@dataclass(frozen=True)
class Memory:
    """Arrays of one implementation."""

    operations: Operations

    def holding(self, values: np.ndarray, padding: float = GARBAGE) -> np.ndarray:
        """Array with these values; the images that it is padded with hold `padding`."""
        array = self.operations.activations(values.shape, values.dtype)
        array[...] = padding
        array[: len(values)] = values
        return array

    def garbage(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        """Array to be overwritten."""
        return self.holding(np.full(shape, 99, dtype), padding=99)


@pytest.fixture(scope="session")
def memory() -> type[Memory]:
    return Memory


def whole_numbers(rng: np.random.Generator, *shape: int, largest: int = 3) -> np.ndarray:
    return rng.integers(-largest, largest + 1, shape).astype(np.float32)


@pytest.fixture(scope="session")
def convolution_contract() -> Contract:
    return check_convolution


def check_convolution(name: str, draw: Draw, least_filters: int = 1, least_taps: int = 1) -> None:
    """All three directions equal the reference, for a drawn shape."""
    tested, rng = operations(name), np.random.default_rng(draw(st.integers(0, 999)))
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    padding = draw(st.integers(0, kernel - 1))
    least = max(1, kernel - 2 * padding)
    height, width = draw(st.integers(least, 9)), draw(st.integers(least, 9))
    channels = draw(st.integers(-(-least_taps // kernel**2), 6))
    filters, images = draw(st.integers(least_filters, 30)), draw(st.integers(1, 70))
    shape = images, height, width, channels
    lines, pixels = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))

    values, gradient = (
        whole_numbers(rng, *shape),
        whole_numbers(rng, images, lines, pixels, filters),
    )
    weights = whole_numbers(rng, filters, channels, kernel, kernel)
    bias = whole_numbers(rng, filters)
    results = []
    for implementation in (REFERENCE, tested):
        place = Memory(implementation)
        operation = implementation.convolution(shape, filters, kernel, stride, padding)
        inputs, out = place.holding(values), place.garbage(*gradient.shape)
        operation.forward(inputs, weights, bias, out)
        outputs_gradient = place.holding(gradient, padding=0)
        weights_out, bias_out = np.full_like(weights, 99), np.full_like(bias, 99)
        operation.backward_weights(inputs, outputs_gradient, weights_out, bias_out)
        images_out = place.garbage(*shape)
        operation.backward_data(outputs_gradient, weights, images_out)
        results.append([out[:images], weights_out, bias_out, images_out[:images]])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="session")
def pooling_contract() -> Contract:
    return check_pooling


def check_pooling(name: str, draw: Draw) -> None:
    """Maxima, places and gradients equal the reference, for a drawn shape with many ties."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    kernel, stride = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    height, width = draw(st.integers(kernel, 9)), draw(st.integers(kernel, 9))
    images, channels = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    lines, pixels = ((side - kernel) // stride + 1 for side in (height, width))
    values = whole_numbers(rng, images, height, width, channels, largest=1)
    gradient = whole_numbers(rng, images, lines, pixels, channels)
    results = []
    for implementation in (REFERENCE, operations(name)):
        place = Memory(implementation)
        operation = implementation.max_pooling(kernel, stride)
        out = place.garbage(*gradient.shape)
        which = place.garbage(*gradient.shape, dtype=np.uint8)
        operation.forward(place.holding(values), out, which)
        images_out = place.garbage(*values.shape)
        operation.backward(place.holding(gradient), which, images_out)
        results.append([out[:images], which[:images], images_out[:images]])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="session")
def dense_contract() -> Contract:
    return check_dense


def check_dense(name: str, draw: Draw, least_inputs: int = 1) -> None:
    """All three directions equal the reference, for a drawn shape."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    images, outputs = draw(st.integers(1, 70)), draw(st.integers(1, 60))
    inputs = draw(st.integers(least_inputs, 70))
    values, gradient = whole_numbers(rng, images, inputs), whole_numbers(rng, images, outputs)
    weights, bias = whole_numbers(rng, outputs, inputs), whole_numbers(rng, outputs)
    results = []
    for implementation in (REFERENCE, operations(name)):
        place = Memory(implementation)
        operation = implementation.dense(images, inputs, outputs)
        out, inputs_out = place.garbage(images, outputs), place.garbage(images, inputs)
        operation.forward(place.holding(values), weights, bias, out)
        outputs_gradient = place.holding(gradient, padding=0)
        operation.backward_data(outputs_gradient, weights, inputs_out)
        weights_out, bias_out = np.full_like(weights, 99), np.full_like(bias, 99)
        operation.backward_weights(place.holding(values), outputs_gradient, weights_out, bias_out)
        results.append([out[:images], inputs_out[:images], weights_out, bias_out])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="session")
def relu_contract() -> Contract:
    return check_relu


def check_relu(name: str, draw: Draw) -> None:
    """Values and gradients equal the reference, also in place, also where they are not numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    shape = tuple(draw(st.integers(1, 20)) for _ in range(draw(st.sampled_from([2, 4]))))
    values = whole_numbers(rng, *shape)
    places = rng.choice(values.size, size=min(6, values.size), replace=False)
    values.flat[places] = [np.nan, np.inf, -np.inf, 1e-45, -1e-45, -0.0][: len(places)]
    gradient = whole_numbers(rng, *shape)
    results = []
    for implementation in (REFERENCE, operations(name)):
        place = Memory(implementation)
        out, back = place.garbage(*shape), place.garbage(*shape)
        implementation.relu_forward(place.holding(values), out)
        implementation.relu_backward(place.holding(gradient), out, back)
        overwritten, gradient_overwritten = place.holding(values), place.holding(gradient)
        implementation.relu_forward(overwritten, overwritten)
        implementation.relu_backward(gradient_overwritten, overwritten, gradient_overwritten)
        np.testing.assert_array_equal(overwritten, out)
        np.testing.assert_array_equal(gradient_overwritten, back)
        results.append([out[: len(values)], back[: len(values)]])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="session")
def loss_contract() -> Contract:
    return check_loss


def check_loss(name: str, draw: Draw) -> None:
    """Loss and gradient follow the reference in float64; the gradient of padding is zero."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    place, classes = Memory(operations(name)), draw(st.integers(1, 12))
    images = draw(st.integers(1, 40))
    used, size = draw(st.integers(1, images)), draw(st.sampled_from([1, 30, 1000]))
    logits = (size * rng.standard_normal((images, classes))).astype(np.float32)
    labels = rng.integers(0, classes, used)
    expected = np.empty(logits.shape)
    total = REFERENCE.softmax_cross_entropy(logits.astype(np.float64), labels, expected)
    gradient = place.garbage(*logits.shape)
    found = place.operations.softmax_cross_entropy(place.holding(logits), labels, gradient)
    # Adding a logit rounds the loss of an image; a probability is good to its own last places.
    assert found == pytest.approx(total, rel=1e-6, abs=1e-6 * used * (1 + size))
    np.testing.assert_allclose(gradient[:images], expected, rtol=2e-5, atol=1e-6 / used)
    assert not gradient[used:].any()


@pytest.fixture(scope="session")
def infinities_in_loss_contract() -> Contract:
    return check_infinities_in_loss


def check_infinities_in_loss(name: str) -> None:
    """A logit that is not a number, or infinite, is seen in the loss and in its own image alone."""
    place = Memory(operations(name))
    for broken in (np.nan, np.inf):
        for image in range(3):
            logits = np.arange(30, dtype=np.float32).reshape(3, 10)
            logits[image, 7 - image] = broken
            gradient = place.garbage(3, 10)
            labels = np.zeros(3, np.int64)
            loss = place.operations.softmax_cross_entropy(place.holding(logits), labels, gradient)
            assert np.isnan(loss)
            finite = np.isfinite(gradient[:3]).all(axis=1)
            assert finite.tolist() == [other != image for other in range(3)]
    logits = np.zeros((1, 10), np.float32)
    logits[0, 4] = -np.inf
    gradient = place.garbage(1, 10)
    label = np.array([4])
    loss = place.operations.softmax_cross_entropy(place.holding(logits), label, gradient)
    assert loss == np.inf
    np.testing.assert_allclose(gradient[0], [1 / 9] * 4 + [-1] + [1 / 9] * 5, rtol=1e-6)


@pytest.fixture(scope="session")
def arrays_contract() -> Contract:
    return check_arrays


def check_arrays(name: str, draw: Draw) -> None:
    """Arrays begin as zeros, take fewer images than they hold, and flatten channel by channel."""
    tested, rng = operations(name), np.random.default_rng(draw(st.integers(0, 999)))
    place = Memory(tested)
    images, height, width, channels = shape = tuple(draw(st.integers(1, 20)) for _ in range(4))
    fresh = tested.activations(shape)
    assert fresh.dtype == np.float32
    assert fresh.shape[0] >= images
    assert fresh.shape[1:] == shape[1:]
    assert not fresh.any()
    given = draw(st.integers(1, images))
    values = whole_numbers(rng, *shape)
    loaded = place.garbage(*shape)
    tested.load_images(values[:given], loaded)
    np.testing.assert_array_equal(loaded[:given], values[:given])
    assert not loaded[given:].any()
    vectors = tested.flatten(place.holding(values))
    np.testing.assert_array_equal(vectors[:images], REFERENCE.flatten(values))
    assert vectors[0, -1] == values[0, height - 1, width - 1, channels - 1]
    back = place.garbage(*shape)
    tested.unflatten(place.holding(np.array(vectors[:images])), back)
    np.testing.assert_array_equal(back[:images], values)


@pytest.fixture(scope="session")
def not_numbers_in_pooling_contract() -> Contract:
    return check_not_numbers_in_pooling


def check_not_numbers_in_pooling(name: str) -> None:
    """NaN is larger than everything, infinity than every number, and -inf has a place too."""
    place = Memory(operations(name))
    windows = {
        (1, np.nan, np.inf, 2): (np.nan, 1),
        (np.nan, 1, 2, 3): (np.nan, 0),
        (1, 2, 3, np.nan): (np.nan, 3),
        (1, np.inf, np.inf, 2): (np.inf, 1),
        (-np.inf, -np.inf, -np.inf, -np.inf): (-np.inf, 0),
        (-np.inf, -5, -np.inf, -5): (-5, 1),
        (-0.0, 0.0, -0.0, 0.0): (0.0, 0),
    }
    values = np.array(list(windows), np.float32).reshape(-1, 2, 2, 1)
    out = place.garbage(len(windows), 1, 1, 1)
    which = place.garbage(len(windows), 1, 1, 1, dtype=np.uint8)
    place.operations.max_pooling(2, 2).forward(place.holding(values), out, which)
    expected = [np.array(column) for column in zip(*windows.values(), strict=True)]
    np.testing.assert_array_equal(out[: len(windows)].ravel(), expected[0])
    np.testing.assert_array_equal(which[: len(windows)].ravel(), expected[1])
