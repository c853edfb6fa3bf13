"""What a program has switched on around a call: who has to see PyTorch's own operations."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn.modules import module as hooks
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext


def is_watched() -> bool:
    """Tell whether somebody has to see PyTorch's own operations, so that kernels must not run.

    Those are autocast, torch.compile and torch.export, torch.jit.trace, torch.func, forward-mode
    derivatives, and modes of `__torch_dispatch__` or `__torch_function__`.
    """
    return (
        torch.compiler.is_compiling()
        or torch.is_autocast_enabled("cpu")
        or torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack() > 0
        or (torch._C._len_torch_function_stack() > 0 and _functions_are_watched())
    )


def _functions_are_watched() -> bool:
    """Tell whether there is another mode than that of a default device."""
    stack: Any = _get_current_function_mode_stack
    return any(type(mode) is not DeviceContext for mode in stack())


def has_global_hooks() -> bool:
    """Tell whether something is to happen at the call of any module."""
    some: Any = hooks._has_any_global_hook
    return bool(some())


def modes() -> tuple[object, ...]:
    """Return what a forward pass can ask PyTorch for, beside its arguments."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_dtype(),
    )
