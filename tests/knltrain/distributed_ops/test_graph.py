from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from knltrain.distributed_ops import (
    Addition,
    BatchNormalisation,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Graph,
    Images,
    Options,
    Reducer,
    ReLU,
    SingleProcessReducer,
    SoftmaxCrossEntropy,
)
from knltrain.errors import NetworkError
from vectorized_ops.shapes import ConvolutionShape

BATCH, SIDE, CLASSES, RATE = 4, 6, 3, 0.1
MAPS = (BATCH, SIDE, SIDE, 8)


def convolution(name: str, channels: int, reducer: Reducer, options: Options) -> Convolution:
    shape = ConvolutionShape(BATCH, SIDE, SIDE, channels, 8, (3, 3), padding=(1, 1))
    return Convolution(name, shape, reducer, options, bias_rate=2.0)


def branches(reducer: Reducer, options: Options) -> Graph:
    """An output that three layers read, a sum, a concatenation, and two losses."""
    graph = Graph(Images("images", (BATCH, SIDE, SIDE, 2), options))
    (images,) = graph.layers
    stem = graph.add(convolution("stem", 2, reducer, options), images)
    left = graph.add(convolution("left", 8, reducer, options), stem)
    right = graph.add(ReLU("right", MAPS, options), stem)
    total = graph.add(Addition("sum", MAPS, options), left, stem)
    both = graph.add(Concatenation("both", [MAPS, MAPS], options), total, right)
    side = graph.add(GlobalAveragePooling("side", MAPS, options), right)
    side_logits = graph.add(Dense("side logits", BATCH, 8, CLASSES, reducer, options), side)
    graph.add(SoftmaxCrossEntropy("aid", BATCH, CLASSES, options, weight=0.3), side_logits)
    mean = graph.add(GlobalAveragePooling("mean", (*MAPS[:3], 16), options), both)
    logits = graph.add(Dense("logits", BATCH, 16, CLASSES, reducer, options), mean)
    graph.add(SoftmaxCrossEntropy("loss", BATCH, CLASSES, options), logits)
    return graph


class InTorch:
    """The same, by autograd."""

    def __init__(self, graph: Graph) -> None:
        self.of = {
            name: torch.tensor(np.array(values)).requires_grad_()
            for name, values in graph.parameters.items()
        }
        self.velocity = {name: torch.zeros_like(values) for name, values in self.of.items()}

    def logits(self, images: Any) -> tuple[Any, Any]:
        values = torch.tensor(images).permute(0, 3, 1, 2)
        stem = self.convolution("stem", values)
        right = stem.relu()
        both = torch.cat([self.convolution("left", stem) + stem, right], dim=1)
        aid = self.dense("side logits", right.mean(dim=(2, 3)))
        return aid, self.dense("logits", both.mean(dim=(2, 3)))

    def convolution(self, name: str, values: Any) -> Any:
        weights, bias = self.of[f"{name}.weights"], self.of[f"{name}.bias"]
        return functional.conv2d(values, weights, bias, padding=1)

    def dense(self, name: str, values: Any) -> Any:
        return functional.linear(values, self.of[f"{name}.weights"], self.of[f"{name}.bias"])

    def step(self, images: Any, labels: Any) -> float:
        aid, logits = self.logits(images)
        given = torch.tensor(labels)
        loss = functional.cross_entropy(logits, given) + 0.3 * functional.cross_entropy(aid, given)
        loss.backward()
        with torch.no_grad():
            for name, values in self.of.items():
                twice = 2 if name in ("stem.bias", "left.bias") else 1
                gradient, values.grad = values.grad, None
                self.velocity[name].mul_(0.9).add_(gradient, alpha=twice * RATE)
                values -= self.velocity[name]
        return float(loss.detach())


def test_branches_learn_as_by_autograd(options: Options, random: Callable[..., Any]) -> None:
    options = Options(options.implementation, winograd=False, momentum=0.9)
    graph = branches(SingleProcessReducer(), options)
    other = InTorch(graph)
    labels = np.array([0, 2, 1, 1])
    for step in range(3):
        images = random(BATCH, SIDE, SIDE, 2, seed=step)
        expected = other.step(images, labels)
        assert graph.loss(images, labels, key=step) == pytest.approx(expected, rel=1e-5)
        graph.backward()
        graph.step(RATE)
    for name, values in graph.parameters.items():
        np.testing.assert_allclose(values, other.of[name].detach(), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        expected = other.logits(images)[1].numpy()
    np.testing.assert_allclose(graph.logits(images[:2]), expected[:2], rtol=1e-4, atol=1e-5)


def test_ranks_that_see_their_own_images_keep_equal_parameters(
    in_ranks: Callable[..., Any], random: Callable[..., Any]
) -> None:
    def work(reducer: Reducer) -> dict[str, bytes]:
        graph = branches(reducer, Options("reference"))
        for step in range(2):
            images = random(BATCH, SIDE, SIDE, 2, seed=2 * step + reducer.rank)
            graph.loss(images, np.array([0, 1, 2, 0]), key=step)
            graph.backward()
            graph.step(RATE)
        return {name: values.tobytes() for name, values in graph.parameters.items()}

    first, second = in_ranks(2, work)
    assert first == second


def test_evaluation_drops_nothing_and_leaves_auxiliary_losses_out(
    random: Callable[..., Any],
) -> None:
    options, reducer = Options("reference"), SingleProcessReducer()
    graph = Graph(Images("images", (BATCH, SIDE, SIDE, 2), options))
    stem = graph.add(convolution("stem", 2, reducer, options), graph.layers[0])
    norm = graph.add(BatchNormalisation("norm", MAPS, reducer, options), stem)
    mean = graph.add(GlobalAveragePooling("mean", MAPS, options), norm)
    aid = graph.add(Dense("aid", BATCH, 8, CLASSES, reducer, options), mean)
    graph.add(SoftmaxCrossEntropy("aid loss", BATCH, CLASSES, options), aid)
    drop = graph.add(Dropout("drop", (BATCH, 8), 0.5, options), mean)
    logits = graph.add(Dense("logits", BATCH, 8, CLASSES, reducer, options), drop)
    graph.add(SoftmaxCrossEntropy("loss", BATCH, CLASSES, options), logits)
    images, labels = random(BATCH, SIDE, SIDE, 2), np.array([0, 1, 2, 0])
    assert graph.loss(images, labels, key=1) != graph.loss(images, labels, key=2)
    once = graph.logits(images)
    assert graph.layers[4] is aid
    assert aid.times["forward"].calls == 2
    for values in (
        graph.parameters["norm.running_mean"],
        graph.parameters["norm.running_variance"],
    ):
        values += 1
    assert not np.allclose(graph.logits(images), once)


def test_what_does_not_fit_is_refused(random: Callable[..., Any]) -> None:
    options, reducer = Options("reference"), SingleProcessReducer()
    graph = Graph(Images("images", (BATCH, SIDE, SIDE, 2), options))
    (images,) = graph.layers
    labels = np.zeros(BATCH, np.int64)
    with pytest.raises(NetworkError, match="has no loss: add a SoftmaxCrossEntropy"):
        graph.loss(random(BATCH, SIDE, SIDE, 2), labels, key=0)
    with pytest.raises(NetworkError, match="has no loss: add a SoftmaxCrossEntropy"):
        graph.logits(random(BATCH, SIDE, SIDE, 2))
    stem = convolution("stem", 2, reducer, options)
    wrong = r"'wide' takes \(4, 6, 6, 8\), and was connected to \(4, 6, 6, 2\)"
    with pytest.raises(NetworkError, match=wrong):
        graph.add(convolution("wide", 8, reducer, options), images)
    with pytest.raises(NetworkError, match=r"'sum' takes .*, and was connected to nothing"):
        graph.add(Addition("sum", MAPS, options))
    with pytest.raises(NetworkError, match="'more' takes nothing, and was connected to nothing"):
        graph.add(Images("more", (BATCH, SIDE, SIDE, 2), options))
    with pytest.raises(NetworkError, match="'relu' was connected to 'stem', which is not in the g"):
        graph.add(ReLU("relu", MAPS, options), stem)
    graph.add(stem, images)
    with pytest.raises(NetworkError, match="two layers of a graph are called 'stem'"):
        graph.add(convolution("stem", 2, reducer, options), images)


def test_calls_in_another_order_are_refused(random: Callable[..., Any]) -> None:
    graph = branches(SingleProcessReducer(), Options("reference"))
    images, labels = random(BATCH, SIDE, SIDE, 2), np.zeros(BATCH, np.int64)
    with pytest.raises(NetworkError, match=r"call loss\(\) before"):
        graph.backward()
    with pytest.raises(NetworkError, match=r"call backward\(\) before each step"):
        graph.step(RATE)
    graph.loss(images, labels, key=0)
    graph.logits(images)
    with pytest.raises(NetworkError, match=r"call loss\(\) before"):
        graph.backward()
    graph.loss(images, labels, key=0)
    graph.backward()
    graph.loss(images, labels, key=1)
    with pytest.raises(NetworkError, match=r"the last gradients are still there: call step\(\)"):
        graph.backward()
    graph.step(RATE)
    with pytest.raises(NetworkError, match="4 images with 3 labels: expected one for each"):
        graph.loss(images, labels[:3], key=0)
    with pytest.raises(NetworkError, match=r"call backward\(\) before each step"):
        graph.step(RATE)
