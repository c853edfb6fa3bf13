from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from knltrain.distributed_ops import Dense, NodeReducer, Options, SingleProcessReducer
from knltrain.errors import NetworkError


@pytest.mark.parametrize(("bias", "chunks"), [(True, 1), (True, 4), (False, 10)])
@pytest.mark.parametrize("inputs", [48, 37])
def test_results_are_those_of_torch(
    options: Options,
    bias: bool,
    chunks: int,
    inputs: int,
    laid_out: Callable[..., Any],
    random: Callable[..., Any],
) -> None:
    layer = Dense("dense", 6, inputs, 10, SingleProcessReducer(), options, bias=bias, chunks=chunks)
    values, gradient = random(6, inputs), random(6, 10, seed=1)
    given = torch.tensor(values).requires_grad_()
    weights = torch.tensor(layer.parameters["weights"]).requires_grad_()
    out = given @ weights.T
    out.backward(torch.tensor(gradient))
    mine, above = laid_out(options, values), laid_out(options, gradient)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(layer.forward(mine)[:6], out.detach().numpy(), **close)
    gradients = layer.backward_weights(mine, above).wait()
    np.testing.assert_allclose(gradients["weights"], weights.grad.numpy(), **close)
    if bias:
        np.testing.assert_allclose(gradients["bias"], gradient.sum(axis=0), **close)
    np.testing.assert_allclose(layer.backward_data(above)[:6], given.grad.numpy(), **close)


def test_sum_over_ranks_is_the_gradient_of_the_whole_batch(
    in_ranks: Callable[..., list[Any]], random: Callable[..., Any]
) -> None:
    options = Options(implementation="reference", average=False)
    values, gradient = random(8, 20), random(8, 10, seed=1)
    alone = Dense("dense", 8, 20, 10, SingleProcessReducer(), options)
    whole = alone.backward_weights(values, gradient).wait()

    def work(reducer: NodeReducer) -> dict[str, Any]:
        layer = Dense("dense", 4, 20, 10, reducer, options, chunks=2)
        mine = slice(4 * reducer.rank, 4 * reducer.rank + 4)
        handle = layer.backward_weights(values[mine], gradient[mine])
        return {name: found.copy() for name, found in handle.wait().items()}

    first, second = in_ranks(2, work)
    for name, expected in whole.items():
        np.testing.assert_allclose(first[name], expected, rtol=1e-5, atol=1e-5)
        assert first[name].tobytes() == second[name].tobytes()


def test_gradient_travels_in_chunks_that_cover_it(holding: Any, random: Callable[..., Any]) -> None:
    layer = Dense("dense", 4, 20, 10, holding, Options("reference"), chunks=3)
    layer.backward_weights(random(4, 20), random(4, 10))
    assert [values.size for values in holding.values] == [60, 60, 4 * 20 + 8 + 16]


def test_what_cannot_be_is_refused(random: Callable[..., Any]) -> None:
    with pytest.raises(NetworkError, match="from 0 inputs to 3 outputs"):
        Dense("dense", 1, 0, 3, SingleProcessReducer())
    with pytest.raises(NetworkError, match="in 11 chunks: expected 1 to 10"):
        Dense("dense", 4, 20, 10, SingleProcessReducer(), chunks=11)
    layer = Dense("dense", 4, 20, 10, SingleProcessReducer(), Options("reference"))
    with pytest.raises(NetworkError, match="layer 'dense' was given values"):
        layer.forward(random(4, 21))
    with pytest.raises(NetworkError, match="layer 'dense' was given a gradient"):
        layer.backward_weights(random(4, 20), random(4, 9))


def test_cost_has_the_formulas_of_the_thesis(holding: Any) -> None:
    layer = Dense("dense", 4, 20, 16, holding, Options("reference"))
    forward, weights = layer.cost("forward"), layer.cost("backward_weights")
    assert (forward.flops, forward.memory_bytes) == (2 * 4 * 20 * 16, 4 * (80 + 320 + 64))
    assert (weights.flops, weights.wire_bytes) == (2 * 4 * 20 * 16, 4 * (320 + 16))
    update = layer.cost("update")
    assert (update.flops, update.memory_bytes) == (4 * 336, 20 * 336)
