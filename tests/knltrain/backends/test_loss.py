from __future__ import annotations

import numpy as np
import pytest

from knltrain.backends.loss import (
    PLAIN,
    MeanSquaredError,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    classes_of,
    told_right,
)

OUTPUTS = np.array([[1, 3, 3], [2, -1, 1], [-1, -2, -3]], np.float32)
TARGETS = np.array([[0, 1, 0.4], [1, 0, 1], [0, 0, 0]], np.float32)


def test_right_is_the_largest_output_or_each_class() -> None:
    classes = np.array([1, 0, 2])
    for loss in (PLAIN, SigmoidCrossEntropy(), MeanSquaredError()):
        assert loss.right(OUTPUTS, classes) == 2
    assert PLAIN.right(OUTPUTS, TARGETS) == 3  # of equal targets the first one counts
    assert MeanSquaredError().right(OUTPUTS, TARGETS) == 3
    assert SigmoidCrossEntropy().right(OUTPUTS, TARGETS) == 2  # 0.4 is not there
    expected = [[False, True, False], [True, True, True], [True, True, True]]
    assert told_right(OUTPUTS, TARGETS).tolist() == expected
    assert classes_of(TARGETS).tolist() == [1, 0, 0]


def test_images_count_by_the_weights_of_their_classes() -> None:
    loss = SoftmaxCrossEntropy(class_weights=(0.5, 2.0, 1.0))
    assert loss.mass(np.array([1, 1, 0])) == pytest.approx(4.5)
    assert loss.mass(TARGETS) == PLAIN.mass(np.array([1, 1, 0])) == 3


def test_evaluations_measure_without_what_helps_training() -> None:
    assert SoftmaxCrossEntropy(0.1, (1.0, 2.0)).plain == PLAIN
    assert SigmoidCrossEntropy().plain == SigmoidCrossEntropy()
    assert MeanSquaredError().plain == MeanSquaredError()


def test_outputs_tell_probabilities_or_values():
    outputs = np.array([[0.0, 1000.0, 0.0], [1.0, 1.0, -1e30]], np.float32)
    assert SoftmaxCrossEntropy().told(outputs).tolist() == [[0, 1, 0], [0.5, 0.5, 0]]
    assert SigmoidCrossEntropy().told(outputs[:1]).tolist() == [[0.5, 1, 0.5]]
    assert MeanSquaredError().told(outputs).tolist() == outputs.tolist()
    tells = [each.tells for each in (SoftmaxCrossEntropy, SigmoidCrossEntropy, MeanSquaredError)]
    assert tells == ["class", "classes", "values"]


def test_losses_cost_what_they_read_and_write() -> None:
    """Outputs are read, gradients written; targets are read where they are values."""
    costs = [loss.cost(4, 10) for loss in (PLAIN, SigmoidCrossEntropy(), MeanSquaredError())]
    assert [each.compulsory_bytes for each in costs] == [320, 480, 480]
    assert [each.flops for each in costs] == [200, 320, 160]
