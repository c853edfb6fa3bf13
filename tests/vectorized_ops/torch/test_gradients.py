from __future__ import annotations

import pytest
import torch
from agreement import close
from every_operation import PAIRS, images_of, pair_of

NAMES = sorted(PAIRS)
LINEAR = {
    "relu", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "concatenate", "ReLU", "MaxPool2d",
    "AvgPool2d", "AdaptiveAvgPool2d",
}  # fmt: skip
"""Operations without second derivatives, at least where they have a first one."""


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_gradients_are_taken_one_after_the_other(name: str) -> None:
    found = []
    for model in pair_of(name):
        images = images_of(number=1).requires_grad_()
        out = model.eval()(images)
        slopes = torch.linspace(-1, 1, 3 * out.numel()).view(3, *out.shape)
        batched = torch.autograd.grad(out, images, slopes, retain_graph=True, is_grads_batched=True)
        mapped = torch.vmap(
            lambda slope: torch.autograd.grad(out, images, slope, retain_graph=True)[0]  # noqa: B023
        )(slopes)
        found.append((batched[0], mapped))
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs, 1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LINEAR])
def test_second_derivatives_are_an_error_also_behind_a_gradient_without(name: str) -> None:
    model, _ = pair_of(name)
    images = images_of().requires_grad_()
    (slopes,) = torch.autograd.grad(model(images)[:, :1].sum(), images, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiate twice|once_differentiable"):
        slopes.square().sum().backward()


@pytest.mark.parametrize("name", sorted(LINEAR))
def test_penalties_of_gradients_behind_linear_operations_are_those_of_pytorch(name: str) -> None:
    found = []
    for model in pair_of(name):
        images = images_of().requires_grad_()
        scaled = images.square()
        (slopes,) = torch.autograd.grad(model(scaled)[:, :1].sum(), images, create_graph=True)
        (penalty,) = torch.autograd.grad(slopes.square().sum(), images)
        found.append(penalty)
    close(*found, 1e-5)
