from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from knltrain.distributed_ops import LocalResponseNormalisation, Options
from knltrain.errors import NetworkError

SHAPE = (3, 5, 4, 7)


@pytest.mark.parametrize("implementation", ["reference", "numba"])
def test_results_are_those_of_torch(
    implementation: str, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    options = Options(implementation)
    layer = LocalResponseNormalisation("norm", SHAPE, options, size=3, alpha=0.5, bias=2.0)
    values, gradient = random(*SHAPE), random(*SHAPE, seed=1)
    given = torch.tensor(values).permute(0, 3, 1, 2).requires_grad_()
    out = torch.nn.functional.local_response_norm(given, 3, 0.5, 0.75, 2.0)
    out.backward(torch.tensor(gradient).permute(0, 3, 1, 2))
    found = layer.forward(laid_out(options, values))[:3]
    np.testing.assert_allclose(found, out.detach().permute(0, 2, 3, 1).numpy(), rtol=1e-5)
    down = layer.backward_data(laid_out(options, gradient))[:3]
    expected = given.grad.permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(down, expected, rtol=1e-4, atol=1e-5)
    assert (layer.inputs, layer.outputs) == ((SHAPE,), SHAPE)
    assert layer.cost("backward_data").flops == 2 * layer.cost("forward").flops > 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"layer 'norm': .*4 channels.*expected an odd number"):
        LocalResponseNormalisation("norm", SHAPE, Options("reference"), size=4)
    with pytest.raises(NetworkError, match="layer 'norm': 'onednn' has no local response"):
        LocalResponseNormalisation("norm", SHAPE, Options("onednn"))
