"""Updates of packed vectors in one pass over memory: kernels in Triton.

Each has the roundings of the definition beside it in PyTorch's operations: products and sums are
not contracted, and quotients and roots are rounded to nearest. `TRITON_INTERPRET=1` runs them on
the host. Gradients (n,) are clipped, and not regularised yet; rates and decays are one for all
values (1,), or one for each (n,). All that changes from step to step lies on the device.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _rows(block: tl.constexpr):
    return tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)


@triton.jit
def _of_each(numbers, rows, inside, are_several: tl.constexpr):
    # With `else`: Triton would compile what follows a `return`, too.
    if are_several:
        return tl.load(numbers + rows, mask=inside)
    else:  # noqa: RET505
        return tl.load(numbers)


@triton.jit
def _regularised(g, w, decay, l1: tl.constexpr):
    if l1:
        return g + decay * tl.where(w > 0, 1.0, tl.where(w < 0, -1.0, 0.0))
    else:  # noqa: RET505
        return g + decay * w


@triton.jit
def _sgd(
    w_all, g_all, v_all, rates, decays, n, momentum, more,
    nesterov: tl.constexpr, l1: tl.constexpr,
    has_rates: tl.constexpr, has_decays: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    rows = _rows(block)
    inside = rows < n
    w, g = tl.load(w_all + rows, mask=inside), tl.load(g_all + rows, mask=inside)
    decay = _of_each(decays, rows, inside, has_decays)
    rate = _of_each(rates, rows, inside, has_rates)
    before = momentum * tl.load(v_all + rows, mask=inside)
    v = before + rate * _regularised(g, w, decay, l1)
    tl.store(v_all + rows, v, mask=inside)
    tl.store(w_all + rows, w - (more * v - before if nesterov else v), mask=inside)


@triton.jit
def _adamw(
    w_all, g_all, m_all, v_all, sizes, decays, roots, n,
    keep1, take1, keep2, take2, epsilon,
    has_sizes: tl.constexpr, has_decays: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    rows = _rows(block)
    inside = rows < n
    w, g = tl.load(w_all + rows, mask=inside), tl.load(g_all + rows, mask=inside)
    decay = _of_each(decays, rows, inside, has_decays)
    size = _of_each(sizes, rows, inside, has_sizes)
    m = keep1 * tl.load(m_all + rows, mask=inside) + take1 * g
    v = keep2 * tl.load(v_all + rows, mask=inside) + take2 * (g * g)
    tl.store(m_all + rows, m, mask=inside)
    tl.store(v_all + rows, v, mask=inside)
    moved = tl.div_rn(size * m, tl.sqrt_rn(v) * tl.load(roots) + epsilon) + decay * w
    tl.store(w_all + rows, w - moved, mask=inside)


@triton.jit
def _adam(
    w_all, g_all, m_all, v_all, rates, decays, n,
    keep1, take1, keep2, take2, epsilon,
    l1: tl.constexpr, has_rates: tl.constexpr, has_decays: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    rows = _rows(block)
    inside = rows < n
    w, g = tl.load(w_all + rows, mask=inside), tl.load(g_all + rows, mask=inside)
    g = _regularised(g, w, _of_each(decays, rows, inside, has_decays), l1)
    rate = _of_each(rates, rows, inside, has_rates)
    m = keep1 * tl.load(m_all + rows, mask=inside) + take1 * g
    v = keep2 * tl.load(v_all + rows, mask=inside) + take2 * (g * g)
    tl.store(m_all + rows, m, mask=inside)
    tl.store(v_all + rows, v, mask=inside)
    tl.store(w_all + rows, w - tl.div_rn(rate * m, tl.sqrt_rn(v) + epsilon), mask=inside)


@triton.jit
def _squares(
    w_all, g_all, h_all, rates, decays, n, keep, take, epsilon,
    l1: tl.constexpr, has_rates: tl.constexpr, has_decays: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    rows = _rows(block)
    inside = rows < n
    w, g = tl.load(w_all + rows, mask=inside), tl.load(g_all + rows, mask=inside)
    g = _regularised(g, w, _of_each(decays, rows, inside, has_decays), l1)
    rate = _of_each(rates, rows, inside, has_rates)
    h = keep * tl.load(h_all + rows, mask=inside) + take * (g * g)
    tl.store(h_all + rows, h, mask=inside)
    tl.store(w_all + rows, w - tl.div_rn(rate * g, tl.sqrt_rn(h) + epsilon), mask=inside)


@triton.jit
def _adadelta(
    w_all, g_all, h_all, moved_all, rates, decays, n, keep, take, epsilon,
    l1: tl.constexpr, has_rates: tl.constexpr, has_decays: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    rows = _rows(block)
    inside = rows < n
    w, g = tl.load(w_all + rows, mask=inside), tl.load(g_all + rows, mask=inside)
    g = _regularised(g, w, _of_each(decays, rows, inside, has_decays), l1)
    rate = _of_each(rates, rows, inside, has_rates)
    moved = tl.load(moved_all + rows, mask=inside)
    h = keep * tl.load(h_all + rows, mask=inside) + take * (g * g)
    d = g * tl.sqrt_rn(tl.div_rn(moved + epsilon, h + epsilon))
    tl.store(h_all + rows, h, mask=inside)
    tl.store(moved_all + rows, keep * moved + take * (d * d), mask=inside)
    tl.store(w_all + rows, w - rate * d, mask=inside)


@triton.jit
def _elastic(w_all, c_all, e_all, n, rate, block: tl.constexpr):
    rows = _rows(block)
    inside = rows < n
    w = tl.load(w_all + rows, mask=inside)
    e = rate * (w - tl.load(c_all + rows, mask=inside))
    tl.store(e_all + rows, e, mask=inside)
    tl.store(w_all + rows, w - e, mask=inside)


KERNELS: dict[str, Any] = {
    "sgd": _sgd,
    "adamw": _adamw,
    "adam": _adam,
    "squares": _squares,
    "adadelta": _adadelta,
    "elastic": _elastic,
}


def launch(
    name: str,
    vectors: tuple[torch.Tensor, ...],
    rate: torch.Tensor,
    decay: torch.Tensor,
    *numbers: float | torch.Tensor,
    **chosen: bool,
) -> None:
    """Run a kernel on parameters, gradient and state, `vectors` (n,), with its `numbers`.

    Numbers on the device come first.
    """
    several = [each.numel() > 1 for each in (rate, decay)]
    of_rates = "has_sizes" if name == "adamw" else "has_rates"
    there = [each for each in numbers if isinstance(each, torch.Tensor)]
    size = vectors[0].numel()
    with _current(rate.device):
        KERNELS[name][(triton.cdiv(size, _BLOCK),)](
            *vectors,
            rate,
            decay,
            *there,
            size,
            *numbers[len(there) :],
            **{of_rates: several[0], "has_decays": several[1], **chosen},
            block=_BLOCK,
            enable_fp_fusion=False,
        )


def launch_elastic(
    local: torch.Tensor, center: torch.Tensor, increment: torch.Tensor, rate: float
) -> None:
    """Pull `local` (n,) towards the center by `rate`, and write by how much."""
    size = local.numel()
    grid = (triton.cdiv(size, _BLOCK),)
    with _current(local.device):
        _elastic[grid](local, center, increment, size, rate, block=_BLOCK, enable_fp_fusion=False)


def _current(device: torch.device) -> AbstractContextManager[object]:
    """Let Triton launch on a device, and not on the process's current one."""
    if device.type == "cpu":
        return nullcontext()
    found: AbstractContextManager[object] = getattr(torch, device.type).device(device)
    return found
