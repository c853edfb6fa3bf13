from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from vectorized_ops.torch import _patterns as patterns
from vectorized_ops.torch import max_pool2d
from vectorized_ops.torch._reads import Reads
from vectorized_ops.torch._tracing import TENSOR, Call, trace


def graph_of(forward: Callable[..., Any], tensors: int = 1) -> fx.Graph:
    return trace(
        nn.Identity(),
        lambda _model, *given: forward(*given),
        Call((TENSOR,) * tensors, ()),
        Reads(),
    )


def last_of(forward: Callable[..., Any], tensors: int = 1) -> fx.Node:
    """The node before the output."""
    return list(graph_of(forward, tensors).nodes)[-2]


def name_of(node: fx.Node) -> int:
    """Which of the tensors a node is."""
    return int(node.name.removeprefix("tensor_"))


class Layers(nn.Module):
    """Calls each of its modules with the input."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(modules)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [layer(x) for layer in self.layers]


def calls_of(*modules: nn.Module) -> tuple[list[fx.Node], dict[str, nn.Module]]:
    layers = Layers(*modules)
    nodes = fx.Tracer().trace(layers).nodes
    return [node for node in nodes if node.op == "call_module"], dict(layers.named_modules())


@pytest.mark.parametrize(
    "relu",
    [
        functional.relu,
        torch.relu,
        torch.relu_,
        lambda x: functional.relu(x, inplace=True),
        lambda x: x.relu(),
        lambda x: x.relu_(),
    ],
)
def test_a_relu_is_known_by_any_name(relu: Callable[..., Any]) -> None:
    assert patterns.is_relu(last_of(relu), {})


@pytest.mark.parametrize("other", [torch.neg, functional.relu6, lambda x: x.abs()])
def test_other_functions_are_no_relu(other: Callable[..., Any]) -> None:
    assert not patterns.is_relu(last_of(other), {})


def test_layers_are_known_by_their_kind_and_options() -> None:
    kinds = {
        patterns.is_relu: (nn.ReLU(True), nn.ReLU6()),
        patterns.convolution_of: (nn.Conv2d(1, 1, 3, padding=1), nn.ConvTranspose2d(1, 1, 3)),
        patterns.normalisation_of: (nn.BatchNorm2d(1), nn.BatchNorm1d(1)),
        patterns.response_of: (nn.LocalResponseNorm(5), nn.LocalResponseNorm(5, beta=0.6)),
        patterns.max_pooling_of: (nn.MaxPool2d(3), nn.MaxPool2d(3, dilation=2)),
    }
    for find, modules in kinds.items():
        nodes, by_name = calls_of(*modules)
        assert find(nodes[0], by_name)
        assert not find(nodes[1], by_name)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(1, 1, 3, padding="same"),
        nn.Conv2d(1, 1, 3, padding_mode="reflect"),
        nn.MaxPool2d(17),
        nn.MaxPool2d(2, return_indices=True),
    ],
)
def test_layers_with_options_that_kernels_lack_are_left(layer: nn.Module) -> None:
    (node,), by_name = calls_of(layer)
    assert patterns.convolution_of(node, by_name) is None
    assert patterns.max_pooling_of(node, by_name) is None


def test_layers_with_hooks_are_left() -> None:
    layer = nn.BatchNorm2d(1)
    layer.register_forward_hook(lambda *_: None)
    (node,), by_name = calls_of(layer)
    assert patterns.normalisation_of(node, by_name) is None
    assert not patterns.is_single_operation(node, by_name)


@pytest.mark.parametrize(
    "add",
    [
        operator.add,
        operator.iadd,
        torch.add,
        lambda x, y: x.add(y),
        lambda x, y: x.add_(y),
    ],
)
def test_an_addition_is_known_by_any_name(add: Callable[..., Any]) -> None:
    found = patterns.summands_of(last_of(add, 2))
    assert found is not None
    assert [name_of(node) for node in found] == [0, 1]


@pytest.mark.parametrize(
    "other",
    [
        lambda a, b: a * b,
        lambda a, b: a + 1,
        lambda a, b: torch.add(a, b, alpha=2),
        lambda a, b: a.sub_(b),
    ],
)
def test_other_functions_are_no_addition(other: Callable[..., Any]) -> None:
    assert patterns.summands_of(last_of(other, 2)) is None


def test_an_addition_over_what_others_look_at_later_is_left() -> None:
    def before(a: Tensor, b: Tensor) -> Tensor:
        c = a * 2
        a += b
        return a * c

    def after(a: Tensor, b: Tensor) -> Tensor:
        c = a
        a += b
        return a * c  # all see the sum

    assert patterns.summands_of(addition_in(before)) is not None
    assert patterns.summands_of(addition_in(after)) is None


def addition_in(forward: Callable[..., Any]) -> fx.Node:
    (node,) = (node for node in graph_of(forward, 2).nodes if node.target is operator.iadd)
    return node


@pytest.mark.parametrize(
    ("cat", "found"),
    [
        (lambda a, b: torch.cat([a, b], 1), True),
        (lambda a, b: torch.cat((a, b), dim=-3), True),
        (lambda a, b: torch.concat(tensors=[a, b], dim=1), True),
        (lambda a, b: torch.cat([a, b]), False),
        (lambda a, b: torch.cat([a, b], 2), False),
        (lambda a, b: torch.stack([a, b], 1), False),
    ],
)
def test_concatenations_of_channels_are_known(cat: Callable[..., Any], found: bool) -> None:
    branches = patterns.branches_of(last_of(cat, 2))
    assert branches is None if not found else [name_of(node) for node in branches or ()] == [0, 1]


@pytest.mark.parametrize(
    ("options", "simple"),
    [
        ({"stride": 2, "ceil_mode": True}, True),
        ({"dilation": (1, 1), "return_indices": False}, True),
        ({"dilation": 2}, False),
        ({"return_indices": True}, False),
    ],
)
def test_max_pooling_is_replaced_where_it_is_simple(options: dict, simple: bool) -> None:
    graph = fx.Graph()
    node = graph.call_function(functional.max_pool2d, (graph.placeholder("x"), 3), options)
    found = patterns.replacement_of(node)
    kept = {name: value for name, value in options.items() if name in ("stride", "ceil_mode")}
    assert found == ((max_pool2d, kept) if simple else None)


def test_uses_are_counted_by_place_and_not_by_taker() -> None:
    first = next(iter(graph_of(lambda x: torch.cat([x, x], 1)).nodes))
    assert len(first.users) == 1
    assert patterns.uses(first) == 2
    assert patterns.only_taker(first) is None
