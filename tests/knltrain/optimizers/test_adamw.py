"""AdamW takes PyTorch's steps, in place, and remembers how many."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knltrain.network.parameter_groups import ParameterGroup
from knltrain.optimizers.adamw import AdamW
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference.adamw import AdamWUpdate

SIZE = 50
STEPS = 4


def _adamw(decay: float = 0.1) -> AdamW:
    whole = ParameterGroup(0, SIZE, 1.0, 1.0, None, ("all",))
    return AdamW([whole], 0.9, 0.99, 1e-6, decay, Clipping(), AdamWUpdate)


def _vectors(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(4)
    return [generator.standard_normal(SIZE, np.float32) for _ in range(count)]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_with_changing_learning_rate_are_pytorch_s(decay: float) -> None:
    parameters, *gradients = _vectors(1 + STEPS)
    theirs = torch.nn.Parameter(torch.from_numpy(parameters.astype(np.float64)))
    their_optimizer = torch.optim.AdamW([theirs], betas=(0.9, 0.99), eps=1e-6, weight_decay=decay)
    optimizer = _adamw(decay)
    for gradient, rate in zip(gradients, [0.1, 0.2, 0.05, 0.01], strict=True):
        optimizer.step(parameters, gradient, rate)
        theirs.grad = torch.from_numpy(gradient.astype(np.float64))
        their_optimizer.param_groups[0]["lr"] = rate
        their_optimizer.step()
    np.testing.assert_allclose(parameters, theirs.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_state_copied_into_a_new_optimizer_continues_the_run() -> None:
    parameters, *gradients = _vectors(1 + STEPS)
    first, second = _adamw(), _adamw()
    for gradient in gradients[:2]:
        first.step(parameters, gradient, 0.1)
    continued = parameters.copy()
    for name, values in first.state.items():
        second.state[name][...] = values
    for gradient in gradients[2:]:
        first.step(parameters, gradient, 0.1)
        second.step(continued, gradient, 0.1)
    np.testing.assert_array_equal(continued, parameters)
    assert second.state["steps"].tolist() == [STEPS]


def test_state_starts_at_zero_its_vectors_on_a_cache_line() -> None:
    state = _adamw().state
    assert {name: (each.dtype, each.shape) for name, each in state.items()} == {
        "first_moment": (np.float32, (SIZE,)),
        "second_moment": (np.float32, (SIZE,)),
        "steps": (np.int64, (1,)),
    }
    assert not any(each.any() for each in state.values())
    assert all(state[name].ctypes.data % 64 == 0 for name in ("first_moment", "second_moment"))
