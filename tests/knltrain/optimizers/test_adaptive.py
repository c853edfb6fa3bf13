"""Adaptive optimizers take PyTorch's steps where those are the same, and remember their state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from knltrain.network.parameter_groups import ParameterGroup
from knltrain.optimizers.adaptive import AdaptiveOptimizer
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference.adaptive import (
    AdaDeltaUpdate,
    AdaGradUpdate,
    AdamUpdate,
    RMSPropUpdate,
)

SIZE = 48
STEPS = 4
WHOLE = ParameterGroup(0, SIZE, 1.0, 1.0, None, ("all",))
RULES: dict[str, tuple[tuple[str, ...], Any, tuple[float, ...]]] = {
    "Adagrad": (("squares",), AdaGradUpdate, (1e-6,)),
    "RMSprop": (("squares",), RMSPropUpdate, (0.9, 1e-6)),
    "Adadelta": (("squares", "moves"), AdaDeltaUpdate, (0.9, 1e-6)),
    "Adam": (("first", "second"), AdamUpdate, (0.9, 0.99, 1e-3)),
}
"""Names of the state, update and its numbers, by the name of PyTorch's optimizer."""
THEIRS: dict[str, dict[str, Any]] = {
    "Adagrad": {"eps": 1e-6},
    "RMSprop": {"alpha": 0.9, "eps": 1e-6},
    "Adadelta": {"rho": 0.9, "eps": 1e-6},
    "Adam": {"betas": (0.9, 0.99)},
}


def _optimizer(name: str, decay: float = 0.1) -> AdaptiveOptimizer:
    names, update, numbers = RULES[name]
    return AdaptiveOptimizer(
        [WHOLE], decay, names, lambda groups: update(groups, Clipping(), False, *numbers)
    )


def _vectors(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(4)
    return [generator.standard_normal(SIZE, np.float32) for _ in range(count)]


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", RULES)
def test_steps_with_changing_learning_rate_are_pytorch_s(name: str, decay: float) -> None:
    """Adam's epsilon is outside of the bias correction, PyTorch's inside: the same if scaled."""
    parameters, *gradients = _vectors(1 + STEPS)
    theirs = torch.nn.Parameter(torch.from_numpy(parameters.astype(np.float64)))
    their_optimizer = getattr(torch.optim, name)([theirs], weight_decay=decay, **THEIRS[name])
    optimizer = _optimizer(name, decay)
    rates = [0.1, 0.2, 0.05, 0.01]
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        optimizer.step(parameters, gradient, rate)
        theirs.grad = torch.from_numpy(gradient.astype(np.float64))
        their_optimizer.param_groups[0]["lr"] = rate
        if name == "Adam":
            their_optimizer.param_groups[0]["eps"] = 1e-3 / math.sqrt(1 - 0.99**step)
        their_optimizer.step()
    np.testing.assert_allclose(parameters, theirs.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_state_copied_into_a_new_optimizer_continues_the_run(name: str) -> None:
    parameters, *gradients = _vectors(1 + STEPS)
    first, second = _optimizer(name), _optimizer(name)
    for gradient in gradients[:2]:
        first.step(parameters, gradient, 0.1)
    continued = parameters.copy()
    for key, values in first.state.items():
        second.state[key][...] = values
    for gradient in gradients[2:]:
        first.step(parameters, gradient, 0.1)
        second.step(continued, gradient, 0.1)
    np.testing.assert_array_equal(continued, parameters)
    assert second.state["steps"].tolist() == [STEPS]


@pytest.mark.parametrize("name", RULES)
def test_state_starts_at_zero_its_vectors_on_a_cache_line(name: str) -> None:
    state = _optimizer(name).state
    assert list(state) == [*RULES[name][0], "steps"]
    assert not any(each.any() for each in state.values())
    vectors = [each for key, each in state.items() if key != "steps"]
    assert all(each.shape == (SIZE,) and each.ctypes.data % 64 == 0 for each in vectors)
