from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vectorized_ops.torch._reads import NotTraceableError, Reads
from vectorized_ops.torch._tracing import TENSOR, Call, trace

ONE = Call((TENSOR,), ())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.pool = nn.Linear(2, 2), nn.MaxPool2d(2, return_indices=True)


def follow(forward: Callable[[Any, Any], Any]) -> torch.fx.Graph:
    return trace(Model(), forward, ONE, Reads())


def test_values_that_are_surely_tensors_say_so() -> None:
    told: list[bool] = []

    def forward(model: Any, x: Tensor) -> Tensor:
        out = torch.relu(model.layer(x))
        told.extend([isinstance(x, Tensor), isinstance(out, Tensor), torch.is_tensor(x)])
        told.append(isinstance(model.layer.weight, nn.Parameter))
        told.extend([isinstance(x, (tuple, nn.Parameter)), hasattr(x, "nonsense")])
        return out

    follow(forward)
    assert told == [True] * 4 + [False] * 2
    assert builtins.isinstance.__class__ is builtins.len.__class__


@pytest.mark.parametrize(
    "forward",
    [
        lambda model, x: x if isinstance(model.pool(x), tuple) else -x,
        lambda _, x: x if isinstance(x.max(), Tensor) else -x,
        lambda _, x: x * len(x),
        lambda _, x: x if x.sum() else -x,
        lambda _, x: [each for each in x],  # noqa: C416 (it iterates)
    ],
)
def test_what_is_not_known_is_refused(forward: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(NotTraceableError, match=r"it asks|it iterates"):
        follow(forward)
    assert builtins.isinstance.__class__ is builtins.len.__class__


def test_refusals_are_not_kept_from_us() -> None:
    def forward(_model: Any, x: Tensor) -> Tensor:
        try:
            return x if x.sum() else -x
        except Exception:  # noqa: BLE001 (as programs do)
            return x

    with pytest.raises(NotTraceableError, match="asks whether"):
        follow(forward)
