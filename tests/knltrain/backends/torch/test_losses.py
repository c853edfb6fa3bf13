from __future__ import annotations

import pytest
import torch

from knltrain.backends.loss import Loss, MeanSquaredError, SigmoidCrossEntropy, SoftmaxCrossEntropy
from knltrain.backends.torch.losses import class_weights, mean_loss, sum_of_losses
from knltrain.backends.torch.mirrors import HOST

OUTPUTS = torch.tensor([[1.0, 3.0], [2.0, -1.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("loss", "labels", "expected"),
    [
        (MeanSquaredError(), torch.tensor([1, 0]), (1 + 4 + 1 + 1) / 4),
        (MeanSquaredError(), torch.tensor([[1.0, 2.0], [0.0, 0.0]]), (0 + 1 + 4 + 1) / 4),
        (SigmoidCrossEntropy(), torch.tensor([[0.5, 0.5]] * 2), 1.0755),
        (SoftmaxCrossEntropy(), torch.tensor([1, 0]), 0.08776),
        (SoftmaxCrossEntropy(class_weights=(3.0, 1.0)), torch.tensor([1, 0]), 0.06817),
    ],
)
def test_mean_over_the_images(loss: Loss, labels: torch.Tensor, expected: float) -> None:
    labels = labels if labels.ndim == 1 else labels.double()
    weights = class_weights(loss, HOST)
    found = mean_loss(loss, OUTPUTS, labels, None if weights is None else weights.double())
    assert found.item() == pytest.approx(expected, rel=1e-3)


def test_sum_is_of_plain_losses() -> None:
    labels = torch.tensor([1, 0])
    weighted = SoftmaxCrossEntropy(0.1, (3.0, 1.0))
    assert sum_of_losses(weighted, OUTPUTS, labels) == pytest.approx(2 * 0.08776, rel=1e-3)
    assert sum_of_losses(MeanSquaredError(), OUTPUTS, labels) == pytest.approx(2 * 7 / 4)
