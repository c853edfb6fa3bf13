"""Batched gradients, by vmap or `torch.autograd.grad(is_grads_batched=True)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch as functorch
from torch.autograd.function import once_differentiable

Backward = Callable[..., Any]


def one_by_one(backward: Backward) -> Backward:
    """Let a backward pass take batches of gradients, one gradient after the other.

    It has no derivatives itself: asking for them is an error of PyTorch where the gradient that
    arrives has any. Where it has none, the pass is taken to be linear in it alone; `curved` has the
    error where that is not so.
    """

    @functools.wraps(backward)
    def passed(ctx: Any, *gradients: Tensor | None) -> Any:
        if not any(gradient is not None and is_batched(gradient) for gradient in gradients):
            return backward(ctx, *gradients)
        level = max(_level(gradient) for gradient in gradients if gradient is not None)
        results = [passed(ctx, *each) for each in _unstacked(gradients, level)]
        return _stacked(results, level)

    return once_differentiable(passed)


def curved(backward: Backward) -> Backward:
    """Do so for a pass whose result also depends on what the forward pass was given.

    PyTorch would leave that out of second derivatives in silence.
    """
    passed = one_by_one(backward)

    @functools.wraps(backward)
    def armed(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            gradients = tuple(None if each is None else _with_gradient(each) for each in gradients)
        return passed(ctx, *gradients)

    return armed


def _with_gradient(tensor: Tensor) -> Tensor:
    return tensor if tensor.requires_grad else tensor.detach().requires_grad_()


def is_batched(gradient: Tensor) -> bool:
    """Tell whether a gradient is a batch of them."""
    return functorch.is_batchedtensor(gradient) or functorch.is_legacy_batchedtensor(gradient)


def _level(gradient: Tensor) -> int:
    """Return the level of a batch, above 0; negative that of the vmap behind is_grads_batched."""
    if functorch.is_legacy_batchedtensor(gradient):
        torch._C._vmapmode_increment_nesting()
        return -torch._C._vmapmode_decrement_nesting() or -1
    return functorch.maybe_get_level(gradient) if functorch.is_batchedtensor(gradient) else -1000


def _unstacked(gradients: tuple[Tensor | None, ...], level: int) -> list[tuple[Any, ...]]:
    """Return the single gradients of a batch; one that is the same in all of them is repeated."""
    parts: list[Any] = []
    for gradient in gradients:
        if gradient is None or _level(gradient) != level:
            parts.append(gradient)
        elif level < 0:
            parts.append(torch._remove_batch_dim(gradient, -level, 1, 0).unbind(0))
        else:
            dim = functorch.maybe_get_bdim(gradient)
            parts.append(functorch.get_unwrapped(gradient).unbind(dim))
    size = next(len(part) for part in parts if isinstance(part, tuple))
    return [tuple(p[i] if isinstance(p, tuple) else p for p in parts) for i in range(size)]


def _stacked(results: list[Any], level: int) -> Any:
    if isinstance(results[0], tuple):
        return tuple(_stacked(list(each), level) for each in zip(*results, strict=True))
    if results[0] is None:
        return None
    whole = torch.stack(results)
    if level < 0:
        return torch._add_batch_dim(whole, 0, -level)
    return functorch._add_batch_dim(whole, 0, level)
