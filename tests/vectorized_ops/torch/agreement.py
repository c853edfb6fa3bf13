"""Our operations beside PyTorch's in double precision, values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

TOLERANCE = 3e-6
"""Of the largest value, or of 1: sums may cancel."""

Operation = Callable[..., Tensor]

sizes = st.integers(1, 9)
channels = st.sampled_from([1, 3, 8, 15, 16, 17, 24, 40, 67])
layouts = st.sampled_from(["channels_last", "channels_first", "slice", "wide"])


def placed(values: Tensor, layout: str) -> Tensor:
    """The same images (N, C, H, W) elsewhere in memory."""
    if layout == "channels_first":
        return values.contiguous()
    if layout == "channels_last":
        return values.contiguous(memory_format=torch.channels_last)
    number, count, height, width = values.shape
    if layout == "slice":  # some channels of every pixel
        wide = torch.full((number, height, width, count + 5), torch.nan)
        wide[..., 2 : count + 2] = values.permute(0, 2, 3, 1)
        return wide.permute(0, 3, 1, 2)[:, 2 : count + 2]
    wide = torch.full((number, height, 2 * width, count), torch.nan)  # every other pixel
    wide[:, :, ::2] = values.permute(0, 2, 3, 1)
    return wide.permute(0, 3, 1, 2)[..., ::2]


def agree(
    ours: Operation,
    theirs: Operation,
    *tensors: Tensor,
    edge: Operation | None = None,
    layout: str = "channels_last",
    tolerance: float = TOLERANCE,
) -> None:
    """Values and all gradients equal those of `theirs`, with an arriving gradient in any layout.

    `edge` returns what a ReLU cuts at zero: where that is too close to it, no gradient arrives.
    """
    mine = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    given = [_as_given(copy, tensor) for copy, tensor in zip(mine, tensors, strict=True)]
    out, expected = ours(*given), theirs(*exact)
    close(out, expected, tolerance)
    gradient = torch.randn(expected.shape)
    if edge is not None:
        gradient[edge(*exact).abs() < 1e-4] = 0
    if gradient.dim() == 4:
        gradient = placed(gradient, layout)
    out.backward(gradient)
    expected.backward(gradient.double())
    for found, wanted in zip(mine, exact, strict=True):
        assert found.grad is not None
        assert wanted.grad is not None
        close(found.grad, wanted.grad, tolerance)


def _as_given(leaf: Tensor, original: Tensor) -> Tensor:
    """The leaf in the memory order of the original, which cloning may have changed."""
    if leaf.dim() != 4:
        return leaf
    memory = torch.empty_strided(original.shape, original.stride())
    return memory.copy_(leaf)


def close(found: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    assert found.shape == expected.shape
    largest = max(expected.abs().max().item(), 1.0)
    torch.testing.assert_close(
        found.double(), expected.double(), rtol=0, atol=tolerance * largest, equal_nan=True
    )


def equal_with_nan(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def with_strange_values(values: Tensor, strange: Sequence[float]) -> Tensor:
    """Copy, of which some have become NaN or infinite."""
    values = values.clone()
    places = torch.randperm(values.numel())[: len(strange)]
    values.view(-1)[places[: len(places)]] = torch.tensor(strange[: len(places)])
    return values
