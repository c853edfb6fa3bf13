"""Operations and models in bfloat16, by autocast or by modules of it, beside PyTorch's own.

Ours may be no farther from float64 than PyTorch's are, but for a half and a rounding.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from every_operation import CHANNELS, PAIRS, Branches, images_of, pair_of
from plain_models import GoogLeNet, ResNet, loss_of
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops import torch as operations

BFLOAT16, ROUNDING = torch.bfloat16, 2.0**-8
OPERATIONS = sorted(set(PAIRS) - {"optimize"})
RESPONSES = {"local_response_norm", "LocalResponseNorm"}
"""PyTorch's results of these are float32 under autocast, and of modules of bfloat16 an error."""

WAYS: dict[str, tuple[torch.dtype, Callable[[], AbstractContextManager[Any]]]] = {
    "autocast": (torch.float32, lambda: torch.autocast("cpu", dtype=BFLOAT16)),
    "modules": (BFLOAT16, contextlib.nullcontext),
}
"""Of each way to compute in bfloat16: the type of the modules, and the context."""


def distance(found: list[Tensor], exact: list[Tensor]) -> float:
    """The norm of the difference of all values, by that of the exact ones."""
    one, other = (torch.cat([t.flatten().double() for t in each]) for each in (found, exact))
    return float((one - other).norm() / other.norm())


def computed(
    module: nn.Module,
    images: Tensor,
    loss: Callable[[Any], Tensor],
    context: AbstractContextManager[Any] | None = None,
) -> list[Tensor]:
    """Loss, gradients of images and of parameters, and statistics; the pass in a context."""
    module.zero_grad()
    images = images.detach().requires_grad_()
    with context or contextlib.nullcontext():
        out = loss(module(images))
    out.backward()
    gradients = [p.grad for p in (images, *module.parameters()) if p.grad is not None]
    buffers = [buffer.clone() for buffer in module.buffers() if buffer.is_floating_point()]
    return [out.detach(), *gradients, *buffers]


def mean_of(out: Tensor) -> Tensor:
    slopes = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).view(out.shape)
    return (out.double() * slopes).mean()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_as_near_to_float64_as_those_of_pytorch(name: str, way: str) -> None:
    dtype, context = WAYS[way]
    ours, theirs = (module.to(dtype) for module in pair_of(name))
    exact, images = copy.deepcopy(theirs).double(), images_of(number=4).bfloat16()
    found = computed(ours, images, mean_of, context())
    expected = computed(exact, images.double(), mean_of)
    try:
        others = computed(theirs, images, mean_of, context())
    except NotImplementedError:
        assert name in RESPONSES
        others = expected
    else:
        assert [each.dtype for each in found] == [each.dtype for each in others]
    for mine, other, exactly in zip(found, others, expected, strict=True):
        assert distance([mine], [exactly]) < 1.5 * distance([other], [exactly]) + ROUNDING


@pytest.mark.parametrize("name", OPERATIONS)
def test_images_of_bfloat16_give_such_by_kernels(name: str) -> None:
    ours, _ = pair_of(name)
    with torch.autocast("cpu", dtype=BFLOAT16):
        out = ours(images_of().bfloat16().requires_grad_())
    assert out.dtype == BFLOAT16
    assert type(out.grad_fn).__name__.startswith("_")


def test_types_are_promoted_as_by_pytorch() -> None:
    images, addend = images_of().bfloat16(), images_of(1)
    with torch.autocast("cpu", dtype=BFLOAT16):
        joined = operations.concatenate([images, addend])
        added = operations.batch_norm(images, None, None, training=True, addend=addend, relu=True)
        plain = functional.batch_norm(images, None, None, training=True)
    assert torch.equal(joined, torch.cat([images.float(), addend], 1))
    assert torch.equal(added, functional.relu(plain + addend))


@pytest.mark.parametrize(
    "state",
    [
        [torch.ones(CHANNELS).bfloat16() if i == bad else torch.ones(CHANNELS) for i in range(4)]
        for bad in range(4)
    ],
)
def test_parameters_of_several_types_are_pytorchs_error(state: list[Tensor]) -> None:
    for images in (images_of(), images_of().bfloat16()):
        with pytest.raises(RuntimeError):
            operations.batch_norm(images, *state, training=True)


def model_of(name: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(2)
    if name == "resnet":
        return ResNet((1, 1, 1, 1), 16, 10).to(dtype), torch.randn(8, 3, 48, 48).to(dtype)
    if name == "small":
        return ResNet((1, 1), 8, 10).to(dtype), torch.randn(8, 3, 32, 32).to(dtype)
    if name == "branches":
        return Branches().to(dtype), images_of(number=8).to(dtype)
    return GoogLeNet(10, dropout=0.0).to(dtype), torch.randn(2, 3, 224, 224).to(dtype)


def loss(out: Any) -> Tensor:
    first = out[0] if isinstance(out, tuple) else out
    return loss_of(out, torch.arange(len(first)) % first.shape[1])


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("resnet", "autocast"), ("resnet", "modules"), ("branches", "autocast"),
        pytest.param("googlenet", "autocast", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_models_are_as_near_to_float64_as_those_of_pytorch(name: str, way: str) -> None:
    dtype, context = WAYS[way]
    plain, images = model_of(name, dtype)
    exact, names = copy.deepcopy(plain).double(), list(plain.state_dict())
    ours = operations.optimize(copy.deepcopy(plain), keep_memory=False)
    expected = computed(exact, images.double(), loss)
    others = computed(plain, images, loss, context())
    found = computed(ours, images, loss, context())
    assert operations.fusion_of(ours).refused == ""
    assert [each.dtype for each in found] == [each.dtype for each in others]
    assert distance(found[:1], expected[:1]) < 1.5 * distance(others[:1], expected[:1]) + ROUNDING
    assert distance(found[2:], expected[2:]) < 1.5 * distance(others[2:], expected[2:])
    assert list(ours.state_dict()) == names
    kinds = [[tensor.dtype for tensor in model.state_dict().values()] for model in (ours, plain)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("way", WAYS)
def test_ten_steps_learn_as_in_pytorch(way: str) -> None:
    dtype, context = WAYS[way]
    plain, images = model_of("small", dtype)
    ours, losses = operations.optimize(copy.deepcopy(plain), keep_memory=False), []
    for model in (plain, ours):
        sgd = torch.optim.SGD(model.parameters(), lr=0.05)
        steps = []
        for _ in range(10):
            sgd.zero_grad()
            with context():
                out = loss(model(images))
            out.backward()
            sgd.step()
            steps.append(out.item())
        losses.append(steps)
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert losses[1][-1] < 0.6 * losses[1][0]


def test_no_activations_are_kept_in_float32() -> None:
    model, kept = operations.optimize(Branches(), keep_memory=False), []

    def keep(tensor: Tensor) -> Tensor:
        if tensor.dim() == 4:
            kept.append(tensor.dtype)
        return tensor

    kept_all = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with kept_all, torch.autocast("cpu", dtype=BFLOAT16):
        model(images_of())
    assert operations.fusion_of(model).refused == ""
    assert set(kept) == {BFLOAT16}


def test_a_change_of_autocast_is_another_pass() -> None:
    model, images = operations.optimize(Branches(), keep_memory=False), images_of()
    with torch.autocast("cpu", dtype=BFLOAT16):
        inside = model(images)
    assert (inside.dtype, model(images).dtype) == (BFLOAT16, torch.float32)
