from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from vectorized_ops.epilogue import RELU, Epilogue
from vectorized_ops.torch import MaxPool2d, max_pool2d
from vectorized_ops.torch._fusion import concatenate, fuse, normalise
from vectorized_ops.torch._reads import Reads
from vectorized_ops.torch._tracing import TENSOR, Call, trace
from vectorized_ops.torch.branches import hand_out, join_branches
from vectorized_ops.torch.convolution import convolve_by
from vectorized_ops.torch.lrn import respond_by
from vectorized_ops.torch.normalisation import normalise_by
from vectorized_ops.torch.pooling import pool_by


class Block(nn.Module):
    def __init__(self, forward: Any, activation: nn.Module) -> None:
        super().__init__()
        self.act = activation
        self.conv, self.other = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.bn, self.bn2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.relu, self.lrn = nn.ReLU(inplace=True), nn.LocalResponseNorm(3)
        self.pool, self.linear = MaxPool2d(2, 1), nn.Linear(4, 4)
        self.wide = nn.Conv2d(4, 8, 1)
        self.pass_forward = forward

    def forward(self, x: Tensor) -> Any:
        return self.pass_forward(self, x)


def fused(forward: Any, activation: nn.Module | None = None) -> tuple[list[fx.Node], Counter[str]]:
    """The nodes of the fused graph, after a look at whether it computes the same."""
    torch.manual_seed(0)
    block = Block(forward, activation or nn.Identity()).eval()
    graph = trace(block, Block.forward, Call((TENSOR,), ()), Reads())
    images = torch.randn(2, 4, 6, 6)
    expected = forward(block, images.clone())
    counts = fuse(graph, dict(block.named_modules()))
    graph.lint()
    found = fx.GraphModule(block, graph)(images.clone())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    return [node for node in graph.nodes if node.op.startswith("call")], counts


def calling(nodes: list[fx.Node], target: Any) -> fx.Node:
    (node,) = (node for node in nodes if node.target is target)
    return node


def test_a_convolution_takes_the_relu_behind_it() -> None:
    nodes, counts = fused(lambda b, x: b.other(b.relu(b.conv(x))))
    assert [node.target for node in nodes] == [convolve_by, "other"]
    assert counts == {"convolution + ReLU": 1}
    assert nodes[0].kwargs == {"overwrite": True}


def test_a_convolution_without_a_relu_is_left() -> None:
    nodes, counts = fused(lambda b, x: torch.sigmoid(b.conv(x)))
    assert [node.target for node in nodes] == ["conv", torch.sigmoid]
    assert not counts


def test_a_convolution_that_others_look_at_keeps_its_relu_apart() -> None:
    nodes, _ = fused(lambda b, x: (lambda y: functional.relu(y) + y)(b.conv(x)))
    assert "conv" in [node.target for node in nodes]


def test_a_normalisation_takes_the_relu_behind_it() -> None:
    nodes, counts = fused(lambda b, x: b.relu(b.bn(b.conv(x))).mean())
    assert calling(nodes, normalise).kwargs == {"epilogue": RELU}
    assert counts == {"normalisation + ReLU": 1}


@pytest.mark.parametrize(
    ("activation", "epilogue"),
    [
        (nn.ReLU6(inplace=True), Epilogue(slope=0.0, ceiling=6.0)),
        (nn.Hardtanh(0.0, 2.0), Epilogue(slope=0.0, ceiling=2.0)),
        (nn.LeakyReLU(0.25), Epilogue(slope=0.25)),
        (nn.SiLU(inplace=True), Epilogue("silu")),
        (nn.Hardswish(), Epilogue("hard_swish")),
        (nn.Hardsigmoid(), Epilogue("hard_sigmoid")),
        (nn.GELU(), Epilogue("gelu")),
        (nn.GELU("tanh"), Epilogue("gelu_tanh")),
        (nn.Sigmoid(), Epilogue("sigmoid")),
        (nn.Tanh(), Epilogue("tanh")),
    ],
)
def test_a_normalisation_takes_the_activation_behind_it(
    activation: nn.Module, epilogue: Epilogue
) -> None:
    nodes, counts = fused(lambda b, x: b.act(b.bn(b.conv(x))).mean(), activation)
    assert calling(nodes, normalise).kwargs == {"epilogue": epilogue}
    assert counts == {"normalisation + activation": 1}


def test_functions_are_taken_as_modules_are() -> None:
    for function in (functional.silu, functional.relu6, torch.sigmoid):
        _, counts = fused(lambda b, x, f=function: f(b.bn(b.conv(x))).mean())
        assert counts == {"normalisation + activation": 1}


@pytest.mark.parametrize("activation", [nn.Hardtanh(), nn.LeakyReLU(-0.5), nn.ELU(), nn.PReLU()])
def test_an_activation_without_an_epilogue_is_left(activation: nn.Module) -> None:
    nodes, counts = fused(lambda b, x: b.act(b.bn(b.conv(x))).mean(), activation)
    assert "bn" in [node.target for node in nodes]
    assert not counts


def changed(activation: nn.Module, **attributes: Any) -> nn.Module:
    for name, value in attributes.items():
        setattr(activation, name, value)
    return activation


def test_bounds_that_were_changed_are_those_that_count() -> None:
    activation = changed(nn.ReLU6(), max_val=0.5)
    nodes, _ = fused(lambda b, x: b.act(b.bn(b.conv(x))).mean(), activation)
    assert calling(nodes, normalise).kwargs == {"epilogue": Epilogue(slope=0.0, ceiling=0.5)}


@pytest.mark.parametrize(
    "activation",
    [changed(nn.Hardtanh(0.0, 2.0), max_val=-1.0), changed(nn.GELU(), approximate="sigmoid")],
)
def test_what_pytorch_refuses_is_refused_as_before(activation: nn.Module) -> None:
    block = Block(lambda b, x: b.act(b.bn(b.conv(x))).mean(), activation)
    graph = trace(block, Block.forward, Call((TENSOR,), ()), Reads())
    assert not fuse(graph, dict(block.named_modules()))
    with pytest.raises((ValueError, RuntimeError), match=r"min_val|approximate"):
        fx.GraphModule(block, graph)(torch.randn(2, 4, 6, 6))


def residual(b: Block, x: Tensor) -> Tensor:
    out = b.bn(b.conv(x))
    out += x
    return b.relu(out)


def test_a_normalisation_takes_the_addition_and_relu_behind_it() -> None:
    nodes, counts = fused(residual)
    call = calling(nodes, normalise)
    assert call.kwargs["addend"].op == "placeholder"
    assert counts == {"normalisation + addition + ReLU": 1}


def test_of_two_normalisations_that_are_added_one_is_fused() -> None:
    nodes, _ = fused(lambda b, x: functional.relu(b.bn(b.conv(x)) + b.bn2(x)))
    assert calling(nodes, normalise).kwargs["addend"].target == "bn2"


def test_takers_of_a_residual_sum_get_tensors_of_their_own() -> None:
    nodes, _ = fused(lambda b, x: (lambda y: b.conv(y) + b.other(y))(residual(b, x)))
    call = calling(nodes, normalise_by)
    assert call.kwargs["takers"] == 2
    assert call.kwargs["overwrite"] is True


def test_a_taker_that_might_write_gets_no_tensor_of_its_own() -> None:
    nodes, _ = fused(lambda b, x: (lambda y: b.conv(y) + y)(residual(b, x)))
    call = calling(nodes, normalise)
    assert "takers" not in call.kwargs
    assert "overwrite" not in call.kwargs


def test_a_concatenation_takes_the_relu_of_convolutions() -> None:
    def inception(b: Block, x: Tensor) -> Tensor:
        return torch.cat([b.relu(b.conv(x)), b.other(x), x], 1)

    nodes, counts = fused(lambda b, x: b.pool(inception(b, x)))
    assert calling(nodes, concatenate).kwargs["rectify"] == (True, False, False)
    assert "conv" in [node.target for node in nodes]
    assert counts == {"concatenation": 1, "convolution, ReLU + concatenation": 1}


def test_what_might_be_written_over_takes_no_relu() -> None:
    def written(b: Block, x: Tensor) -> tuple[Tensor, ...]:
        return torch.cat([b.relu(b.conv(x)), x], 1).mul_(2), b.pool(b.relu(b.other(x))).mul_(2)

    nodes, counts = fused(written)
    assert calling(nodes, concatenate).kwargs["rectify"] == (False, False)
    assert counts == {"concatenation": 1, "convolution + ReLU": 2}


def test_a_relu_that_is_concatenated_twice_is_taken_before() -> None:
    nodes, _ = fused(lambda b, x: (lambda y: torch.cat([y, y], 1))(b.relu(b.conv(x))))
    assert calling(nodes, concatenate).kwargs["rectify"] == (False, False)
    assert "overwrite" not in calling(nodes, convolve_by).kwargs


def test_response_normalisation_and_pooling_take_the_relu_of_a_convolution() -> None:
    nodes, counts = fused(lambda b, x: b.wide(b.pool(b.relu(b.other(b.lrn(b.relu(b.conv(x))))))))
    assert [node.target for node in nodes] == ["conv", respond_by, "other", pool_by, "wide"]
    assert all(
        calling(nodes, target).kwargs == {"rectify": True} for target in (respond_by, pool_by)
    )
    assert sum(counts.values()) == 2


def test_several_takers_of_other_outputs_are_served_by_an_operation_of_its_own() -> None:
    def inception(b: Block, x: Tensor) -> Tensor:
        y = b.pool(x)
        return torch.cat([b.conv(y), b.other(y), b.wide(y)], 1).mean()

    nodes, _ = fused(inception)
    assert calling(nodes, hand_out).args[1] == 3


def test_several_takers_of_a_concatenation_are_served_by_it() -> None:
    nodes, _ = fused(lambda b, x: (lambda y: b.pool(y) * b.pool(y))(torch.cat([x, x], 1)))
    assert calling(nodes, join_branches).kwargs["takers"] == 2


def test_functions_on_their_own_are_replaced() -> None:
    nodes, counts = fused(lambda b, x: functional.max_pool2d(x, 2).mean())
    assert nodes[0].target is max_pool2d
    assert counts == {"max_pool2d": 1}


def test_a_relu_of_anything_else_is_left() -> None:
    nodes, counts = fused(lambda b, x: functional.relu(b.linear(functional.relu(x.mean((2, 3))))))
    assert [node.target for node in nodes].count(functional.relu) == 2
    assert not counts
