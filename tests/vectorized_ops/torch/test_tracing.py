from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vectorized_ops.torch._alterations import has_hooks
from vectorized_ops.torch._reads import NotTraceableError, Reads
from vectorized_ops.torch._tracing import (
    TENSOR,
    Call,
    condition,
    trace,
)

ONE = Call((TENSOR,), ())


class Model(nn.Module):
    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.pass_forward, self.layer, self.calls = forward, nn.Linear(2, 2), 0


def follow(forward: Callable[..., Any], call: Call = ONE) -> torch.fx.Graph:
    return trace(Model(forward), lambda model, *a, **k: forward(model, *a, **k), call, Reads())


def test_calls_are_told_apart_by_all_but_tensors() -> None:
    first, second = torch.ones(1), torch.ones(2)
    call, tensors = Call.of((first, 3), {"mask": second, "name": None})
    assert call == Call((TENSOR, 3), (("mask", TENSOR), ("name", None)))
    assert [id(tensor) for tensor in tensors] == [id(first), id(second)]
    assert call is not None
    assert call.tensors == 2
    assert call.filled(["a", "b"]) == (["a", 3], {"mask": "b", "name": None})


def test_calls_with_structures_are_not_described() -> None:
    assert Call.of(([torch.ones(1)],), {}) == (None, [])


def test_arguments_that_are_no_tensors_are_constants_of_the_graph() -> None:
    graph = follow(
        lambda model, x, twice, mask=None: x + x if twice and mask is None else x,
        Call((TENSOR, True), ()),
    )
    assert [node.op for node in graph.nodes] == ["placeholder", "call_function", "output"]


def sets_attribute(model: Any, x: Tensor) -> Tensor:
    model.calls += 1
    return x


def keeps_output(model: Any, x: Tensor) -> Tensor:
    model.layer.last = x
    return x


def without_gradients(model: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        return x + 1


def under_autocast(model: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model.layer(x)


def at_a_checkpoint(model: Any, x: Tensor) -> Tensor:
    return checkpoint(model.layer, x, use_reentrant=False)


def saved_elsewhere(model: Any, x: Tensor) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return model.layer(x)


REFUSED = {
    "saves tensors in a way of its own": at_a_checkpoint,
    "as checkpoints do": saved_elsewhere,
    "sets Model.calls": sets_attribute,
    "sets Linear.last": keeps_output,
    "switches gradients": without_gradients,
    "autocast": under_autocast,
    "TraceError": lambda model, x: x if x.sum() > 0 else -x,
    "computes with tensors.*rand": lambda model, x: x if torch.rand(1) < 2 else -x,
    "draws random": lambda model, x: x * random.random(),
    "draws random numbers": lambda model, x: x * float(np.random.rand()),  # noqa: NPY002
    "ZeroDivisionError": lambda model, x: x * (1 / 0),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_passes_that_do_what_a_graph_does_not_say_are_refused(reason: str) -> None:
    model = Model(REFUSED[reason])
    torch.manual_seed(3), random.seed(3), np.random.seed(3)  # noqa: NPY002
    expected = torch.rand(1), random.random(), np.random.rand()  # noqa: NPY002
    torch.manual_seed(3), random.seed(3), np.random.seed(3)  # noqa: NPY002
    with pytest.raises(NotTraceableError, match=reason):
        trace(model, REFUSED[reason], ONE, Reads())
    assert model.calls == 0
    assert not hasattr(model.layer, "last")
    assert (torch.rand(1), random.random(), np.random.rand()) == expected  # noqa: NPY002


def test_additions_in_place_stay_in_place() -> None:
    def forward(model: Any, x: Tensor) -> Tensor:
        y = x * 2
        z = y
        y += x
        return z + y  # twice the sum

    graph = follow(forward)
    images = torch.ones(3)
    assert torch.equal(torch.fx.GraphModule(nn.Module(), graph)(images), forward(None, images))


def test_random_numbers_of_tensors_stay_random() -> None:
    graph = follow(lambda model, x: x * torch.rand_like(x))
    assert any(node.target is torch.rand_like for node in graph.nodes)


def test_modules_with_hooks_stay_whole() -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model = nn.Sequential(inner)
    assert not has_hooks(inner)
    before, plain = condition(model), trace(model, nn.Sequential.forward, ONE, Reads())
    inner.register_forward_hook(lambda *_: None)
    assert has_hooks(inner)
    hooked = trace(model, nn.Sequential.forward, ONE, Reads())
    assert [node.target for node in plain.nodes if node.op == "call_module"] == ["0.0", "0.1"]
    assert [node.target for node in hooked.nodes if node.op == "call_module"] == ["0"]
    assert condition(model) != before


def test_the_condition_changes_with_modes_and_modules() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Dropout())
    seen = [condition(model)]
    for change in (
        model.eval,
        lambda: model[1].train(),
        lambda: model.append(nn.ReLU()),
        lambda: model.__setitem__(0, nn.ReLU()),
    ):
        before = condition(model)
        assert before == seen[-1]
        change()
        seen.append(condition(model))
    assert len(set(seen)) == 5
