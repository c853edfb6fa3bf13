from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from knltrain.distributed_ops import Options, SoftmaxCrossEntropy
from knltrain.errors import NetworkError


def test_loss_and_gradient_are_those_of_torch_and_zero_beyond_the_labels(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    layer, logits = SoftmaxCrossEntropy("loss", 6, 10, options, weight=0.5), random(6, 10)
    labels = np.array([3, 0, 9, 1], np.int64)
    given = torch.tensor(logits[:4]).requires_grad_()
    loss = 0.5 * torch.nn.functional.cross_entropy(given, torch.tensor(labels))
    loss.backward()
    assert layer.forward(laid_out(options, logits), labels) == pytest.approx(loss.item(), rel=1e-5)
    gradient = layer.backward_data()
    np.testing.assert_allclose(gradient[:4], given.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert not gradient[4:].any()


@pytest.mark.parametrize(
    "labels",
    [np.array([10]), np.array([-1]), np.zeros(7, np.int64), np.zeros(0, np.int64), np.zeros(3)],
)
def test_labels_that_cannot_be_are_refused(labels: Any) -> None:
    layer = SoftmaxCrossEntropy("loss", 6, 10, Options("reference"))
    with pytest.raises(NetworkError, match="expected 1 to 6 of int64, from 0 to 9"):
        layer.forward(np.zeros((6, 10), np.float32), labels)


def test_logits_of_another_shape_are_refused() -> None:
    layer = SoftmaxCrossEntropy("loss", 6, 10, Options("reference"))
    with pytest.raises(NetworkError, match="layer 'loss' was given logits"):
        layer.forward(np.zeros((6, 9), np.float32), np.zeros(6, np.int64))
