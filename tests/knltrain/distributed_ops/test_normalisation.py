from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from knltrain.distributed_ops import BatchNormalisation, NodeReducer, Options, SingleProcessReducer
from knltrain.errors import NetworkError

SHAPE = (5, 4, 3, 6)


def test_training_is_that_of_torch(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    layer = BatchNormalisation("norm", SHAPE, SingleProcessReducer(), options)
    layer.parameters["scale"][...] = random(6, seed=2)
    layer.parameters["shift"][...] = random(6, seed=3)
    theirs = torch.nn.BatchNorm2d(6)
    theirs.load_state_dict(
        {
            **theirs.state_dict(),
            "weight": torch.tensor(layer.parameters["scale"]),
            "bias": torch.tensor(layer.parameters["shift"]),
        }
    )
    values, gradient = random(*SHAPE), random(*SHAPE, seed=1)
    given = torch.tensor(values).permute(0, 3, 1, 2).requires_grad_()
    out = theirs(given)
    out.backward(torch.tensor(gradient).permute(0, 3, 1, 2))
    mine, above = laid_out(options, values), laid_out(options, gradient)
    close = {"rtol": 1e-4, "atol": 1e-4}
    expected = out.detach().permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(layer.forward(mine)[:5], expected, **close)
    gradients = layer.backward_weights(mine, above).wait()
    np.testing.assert_allclose(gradients["scale"], theirs.weight.grad.numpy(), **close)
    np.testing.assert_allclose(gradients["shift"], theirs.bias.grad.numpy(), **close)
    down = given.grad.permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(layer.backward_data(above)[:5], down, **close)
    layer.step(0.0)
    found = layer.parameters
    np.testing.assert_allclose(found["running_mean"], theirs.running_mean.numpy(), **close)
    np.testing.assert_allclose(found["running_variance"], theirs.running_var.numpy(), **close)
    theirs.eval()
    expected = theirs(given).detach().permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(layer.forward(mine, training=False)[:5], expected, **close)


@pytest.mark.parametrize("average", [False, True])
def test_ranks_keep_the_same_running_statistics_the_mean_of_theirs(
    in_ranks: Callable[..., list[Any]], random: Callable[..., Any], average: bool
) -> None:
    options = Options("reference", average=average)

    def work(reducer: NodeReducer) -> Any:
        layer = BatchNormalisation("norm", SHAPE, reducer, options, statistics_rate=1.0)
        values = random(*SHAPE, seed=reducer.rank)
        layer.forward(values)
        layer.backward_weights(values, random(*SHAPE, seed=9)).wait()
        layer.step(0.1)
        return layer.parameters["running_mean"].copy()

    first, second = in_ranks(2, work)
    assert first.tobytes() == second.tobytes()
    means = [random(*SHAPE, seed=rank).mean(axis=(0, 1, 2)) for rank in range(2)]
    np.testing.assert_allclose(first, (means[0] + means[1]) / 2, atol=1e-6)


def test_what_cannot_be_is_refused(random: Callable[..., Any]) -> None:
    with pytest.raises(NetworkError, match="has 1 value per channel"):
        BatchNormalisation("norm", (1, 1, 1, 8), SingleProcessReducer())
    layer = BatchNormalisation("norm", SHAPE, SingleProcessReducer(), Options("reference"))
    with pytest.raises(NetworkError, match="layer 'norm' was given values"):
        layer.forward(random(5, 4, 3, 7))
    with pytest.raises(NetworkError, match="layer 'norm' was given a gradient"):
        layer.backward_weights(random(*SHAPE), random(5, 6))


def test_cost_has_the_formulas_of_the_thesis(holding: Any) -> None:
    layer = BatchNormalisation("norm", SHAPE, holding, Options("reference"))
    forward, backward = layer.cost("forward"), layer.cost("backward_weights")
    assert (forward.flops, forward.memory_bytes) == (5 * 360, 12 * 360)
    assert (backward.flops, backward.memory_bytes) == (8 * 360, 20 * 360)
    assert backward.wire_bytes == 4 * 4 * 16
    assert layer.cost("backward_data").memory_bytes == 0
