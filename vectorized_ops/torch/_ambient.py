"""Detects contexts around a call that must see PyTorch's own operations."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn.modules import module as hooks
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext


class _State(threading.local):
    blocks = 0
    """Blocks of `in_plain_order` in which a thread is."""


_state = _State()


@contextlib.contextmanager
def in_plain_order() -> Iterator[None]:
    """Let PyTorch's own operations run in the block, and keep images in the order they are in."""
    _state.blocks += 1
    try:
        yield
    finally:
        _state.blocks -= 1


def is_watched() -> bool:
    """Tell whether the context must see PyTorch's own operations, so that kernels must not run.

    Such contexts are autocast to another type than bfloat16, torch.compile and torch.export,
    torch.jit.trace, torch.func, forward-mode derivatives, modes of `__torch_dispatch__` or
    `__torch_function__`, and `in_plain_order`.
    """
    return (
        torch.compiler.is_compiling()
        or _state.blocks > 0
        or autocast_type() not in (None, torch.bfloat16)
        or torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack() > 0
        or (torch._C._len_torch_function_stack() > 0 and _functions_are_watched())
    )


def autocast_type() -> torch.dtype | None:
    """Return the type in which autocast lets convolutions compute on the CPU; None without it."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def _functions_are_watched() -> bool:
    """Tell whether there is another mode than that of a default device."""
    stack: Any = _get_current_function_mode_stack
    return any(type(mode) is not DeviceContext for mode in stack())


def has_global_hooks() -> bool:
    """Tell whether there are hooks for all modules."""
    some: Any = hooks._has_any_global_hook
    return bool(some())


def modes() -> tuple[object, ...]:
    """Return PyTorch's settings that a forward pass can read, besides its arguments."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        autocast_type(),
        torch.get_default_dtype(),
    )


def saving() -> Any:
    """Return the hooks for tensors that autograd saves, as set by a block; None if there are none.

    Checkpoints (`torch.utils.checkpoint`) use them.
    """
    top: Any = torch._C._autograd._top_saved_tensors_default_hooks
    return top(True)
