"""The contracts of what ends a network: dense layers and the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from contracts.memory import (
    REFERENCE,
    Draw,
    Memory,
    check_agreement,
    draw_rng,
    draw_target,
    implementation,
    not_all_numbers,
    whole_numbers,
)
from hypothesis import strategies as st
from numpy.testing import assert_allclose


def check_dense(name: str, draw: Draw) -> None:
    """All three directions equal the reference for a drawn shape, and so does what is no number."""
    seed, rng = draw_rng(draw)
    images, outputs = draw(st.integers(1, 70)), draw(st.integers(1, 60))
    inputs = draw(st.integers(1, 70))
    values, gradient = whole_numbers(rng, images, inputs), whole_numbers(rng, images, outputs)
    weights, bias = whole_numbers(rng, outputs, inputs), whole_numbers(rng, outputs)
    with_bias, relu = draw(st.booleans()), draw(st.booleans())
    target = draw_target(draw, rng, images, inputs)
    if draw(st.booleans()):
        values, gradient = not_all_numbers(rng, values), not_all_numbers(rng, gradient)

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.dense(images, inputs, outputs)
        arguments, out = place.holding(values), place.garbage(images, outputs)
        operation.forward(arguments, weights, bias if with_bias else None, out, relu=relu)
        arriving, back = place.holding(gradient, padding=0), target.out(place)
        operation.backward_data(arriving, weights, back, **target.options(place))
        sums = [place.parameters_out(outputs, inputs)]
        sums += [place.parameters_out(outputs)] * with_bias
        operation.backward_weights(arguments, arriving, sums[0], sums[1] if with_bias else None)
        return [out, back, *sums]

    check_agreement(name, seed, run)


def check_loss(name: str, draw: Draw) -> None:
    """Loss and gradient follow the reference in float64; the gradient of padding is zero."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    place, classes = Memory(implementation(name), rng), draw(st.integers(1, 12))
    images = draw(st.integers(1, 40))
    used, size = draw(st.integers(1, images)), draw(st.sampled_from([1, 30, 1000]))
    logits = (size * rng.standard_normal((images, classes))).astype(np.float32)
    labels = rng.integers(0, classes, used)
    options = {
        "smoothing": draw(st.sampled_from([0.0, 0.1])),
        "weight": draw(st.sampled_from([1.0, 0.3])),
    }
    expected = np.empty(logits.shape)
    total = REFERENCE.softmax_cross_entropy(logits.astype(np.float64), labels, expected, **options)
    gradient = place.garbage(*logits.shape)
    found = place.operations.softmax_cross_entropy(
        place.holding(logits), labels, gradient, **options
    )
    # Adding a logit rounds the loss of an image; a probability is good to its own last places.
    assert found == pytest.approx(total, rel=1e-6, abs=1e-6 * used * (1 + size))
    assert_allclose(gradient[:images], expected, rtol=2e-5, atol=1e-6 / used)
    assert not gradient[used:].any()
    place.check_surroundings()


def check_other_losses(name: str, draw: Draw) -> None:
    """Losses of targets, of weighted classes, and others follow the reference in float64."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    place, classes = Memory(implementation(name), rng), draw(st.integers(1, 12))
    images = draw(st.integers(1, 40))
    used, size = draw(st.integers(1, images)), draw(st.sampled_from([1, 30]))
    logits = (size * rng.standard_normal((images, classes))).astype(np.float32)
    labels = rng.integers(0, classes, used)
    if draw(st.booleans()):
        labels = (rng.random((used, classes)) * rng.integers(0, 2, (used, classes))).astype("f4")
    kind = draw(st.sampled_from(["softmax", "sigmoid", "square"]))
    options = {"weight": draw(st.sampled_from([1.0, 0.3]))}
    if kind == "softmax":
        options["smoothing"] = draw(st.sampled_from([0.0, 0.1]))
        if draw(st.booleans()):
            options["class_weights"] = rng.uniform(0.1, 3, classes).astype(np.float32)
    function = {"softmax": "softmax_cross_entropy", "sigmoid": "sigmoid_cross_entropy"}.get(
        kind, "mean_squared_error"
    )
    expected = np.empty(logits.shape)
    total = getattr(REFERENCE, function)(logits.astype(np.float64), labels, expected, **options)
    gradient = place.garbage(*logits.shape)
    found = getattr(place.operations, function)(place.holding(logits), labels, gradient, **options)
    assert found == pytest.approx(total, rel=2e-6, abs=1e-6 * used * (1 + size) * classes)
    assert_allclose(gradient[:images], expected, rtol=5e-5, atol=1e-5 / used)
    assert not gradient[used:].any()
    place.check_surroundings()


def check_infinities_in_loss(name: str) -> None:
    """A logit that is not a number, or infinite, is seen in the loss and in its own image alone."""
    place = Memory(implementation(name))
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
    for label, smoothing, expected in ((4, 0.0, np.inf), (3, 0.1, np.inf), (3, 0.0, np.log(9))):
        loss = place.operations.softmax_cross_entropy(
            place.holding(logits), np.array([label]), gradient, smoothing=smoothing
        )
        assert loss == pytest.approx(expected)
        shares = np.array([1 / 9] * 4 + [0] + [1 / 9] * 5) - smoothing / 10
        shares[label] -= 1 - smoothing
        assert_allclose(gradient[0], shares, rtol=1e-5)
