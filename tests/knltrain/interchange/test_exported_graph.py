from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from knltrain.errors import NetworkError
from knltrain.interchange.exported_graph import ExportedGraph, shape_of

from .importing import Forward, images_of, imported_of


def _graph(module: nn.Module) -> ExportedGraph:
    return ExportedGraph(module, images_of())


def test_operations_have_the_arguments_of_the_schema_and_their_place() -> None:
    graph = _graph(nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)))
    conv, norm = graph.operations
    assert (conv.operator, norm.operator) == ("conv2d", "batch_norm")
    assert conv.arguments["dilation"] == [1, 1]
    assert conv.arguments["input"] is graph.images
    assert graph.tensors[norm.arguments["running_var"]] == "1.running_var"
    assert (norm.module, norm.module_class) == ("1", "torch.nn.modules.batchnorm.BatchNorm2d")
    assert shape_of(norm.node) == (3, 8, 8)
    assert graph.outputs == (norm.node,)


class Sine(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.sin(images)


def test_line_of_the_users_forward_is_named() -> None:
    (operation,) = _graph(nn.Sequential(Sine())).operations
    assert operation.where.startswith("module '0' (Sine), test_exported_graph.py:")
    assert operation.where.endswith(": return torch.sin(images)")


def test_calls_of_one_module_differ() -> None:
    module = Forward(lambda own, images: own.relu(own.relu(images)), relu=nn.ReLU())
    first, second = _graph(module).operations
    assert first.module == second.module == "relu"
    assert first.call != second.call


def test_a_value_that_was_changed_in_place_is_read_changed() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images)
        maps.relu_()
        F.dropout(maps, 0.0, inplace=True)
        return own.head((maps + own.other(maps)).flatten(1))

    children = {"conv": nn.Conv2d(2, 2, 1), "other": nn.Conv2d(2, 2, 1), "head": nn.Linear(128, 3)}
    network = imported_of(Forward(work, **children), images_of()).network
    assert network.inputs_of(network.layers[2]) == ("relu",)
    assert network.inputs_of(network.layers[3]) == ("relu", "other")


def _viewed(own: Any, images: torch.Tensor) -> Any:
    maps = own.conv(images)
    flat = maps.flatten(1)
    maps.relu_()
    return flat


def _viewing(own: Any, images: torch.Tensor) -> Any:
    maps = own.conv(images)
    maps.flatten(1).relu_()
    return maps


def _viewed_twice(own: Any, images: torch.Tensor) -> Any:
    maps = own.conv(images)
    one, other = maps.flatten(1), maps.flatten(1).view(maps.size(0), -1)
    F.dropout(one, 0.5, own.training, inplace=True)
    return one + other


def _branching(own: Any, images: torch.Tensor) -> Any:
    return own.conv(images) if images.sum() > 0 else images


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (_viewed, "relu_ changes in place what is also seen as 'flatten' afterwards.*write relu "),
        (_viewing, "relu_ changes in place what is also seen as 'conv2d' afterwards"),
        (_viewed_twice, "dropout_ changes in place what is also seen as 'view' afterwards"),
        (_branching, "has no graph .*depend on the values .*test_exported_graph.py:.*_branching"),
        (lambda own, images: (), "returns .*: expected logits"),
        (lambda own, images: {"b": images, "a": images}, "returns a dict, whose values have no or"),
    ],
)
def test_what_has_no_graph_is_named(work: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        _graph(Forward(work, conv=nn.Conv2d(2, 2, 1)))


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_forwards_that_draw_outside_of_pytorch_are_refused(draw: Callable[[], float]) -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        return own.conv(images) if draw() < 2 else images

    module = Forward(work, conv=nn.Conv2d(2, 2, 1))
    with pytest.raises(NetworkError, match=r"Forward draws random numbers of Python or.*Drop"):
        _graph(module)


def test_other_images_than_the_modules_are_named() -> None:
    with pytest.raises(NetworkError, match=r"has no graph .*3 channels"):
        _graph(nn.Sequential(nn.Conv2d(3, 2, 3)))
