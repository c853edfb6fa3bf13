"""What must hold of a PyTorch module before its forward pass is read."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms import WHOLE_MODULES
from vectorized_ops.torch._alterations import has_hooks, is_altered

_WRAPPERS = (nn.parallel.DistributedDataParallel, nn.DataParallel)
_REMOVED_BY = {
    "torch.nn.utils.prune": "torch.nn.utils.prune.remove",
    "torch.nn.utils.spectral_norm": "torch.nn.utils.remove_spectral_norm",
    "torch.nn.utils.weight_norm": "torch.nn.utils.remove_weight_norm",
}
"""Modules of hooks that compute a parameter -> what takes them off."""


def checked_module(module: nn.Module, example: torch.Tensor) -> nn.Module:
    """A copy of the module in training mode, on the CPU; NetworkError if it cannot be imported.

    Parts of a module in training mode keep their own modes. Wrappers of DistributedDataParallel and
    `torch.compile` are taken off.
    """
    if not isinstance(module, nn.Module):
        raise NetworkError(
            f"a network was to be made of {type(module).__name__}: expected a torch.nn.Module"
        )
    _check_example(example)
    module = unwrapped(module)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        _check_tensor(name, tensor)
    for name, part in module.named_modules():
        _check_part(name, part)
    try:
        own = copy.deepcopy(module).cpu()
    except Exception as error:
        raise NetworkError(
            f"{type(module).__name__} cannot be copied ({error}): expected a module without "
            "results of earlier calls, locks and open files among its attributes"
        ) from error
    if not own.training:
        own.train()
    return own


def unwrapped(module: nn.Module) -> nn.Module:
    """The module itself, without DistributedDataParallel, DataParallel and `torch.compile`."""
    while True:
        inner = getattr(module, "module" if isinstance(module, _WRAPPERS) else "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _check_example(example: object) -> None:
    if not isinstance(example, torch.Tensor):
        raise NetworkError(f"example is {example!r}: expected images, a tensor (N,C,H,W)")
    shape = tuple(example.shape)
    is_plain = example.dtype == torch.float32 and example.layout == torch.strided
    if len(shape) != 4 or min(shape) < 1 or not is_plain or example.is_meta:
        raise NetworkError(
            f"example is a tensor {shape} of {example.dtype}, {example.layout}, on "
            f"{example.device}: expected images (N,C,H,W) of torch.float32 with values"
        )


def _check_part(name: str, part: nn.Module) -> None:
    kind = type(part).__name__
    what = f"module '{name}' ({kind})" if name else f"the module ({kind})"
    if isinstance(part, torch.jit.ScriptModule):
        raise NetworkError(f"{what} is TorchScript: expected the module that it was made of")
    if isinstance(part, _BatchNorm) and part.momentum is None:
        raise NetworkError(
            f"{what} has momentum = None (a cumulative average): expected a number such as 0.1"
        )
    if parametrize.is_parametrized(part):
        raise NetworkError(
            f"{what} has parametrisations: expected plain parameters; "
            "torch.nn.utils.parametrize.remove_parametrizations makes them so"
        )
    if type(part).__module__.startswith("torch.ao."):
        raise NetworkError(
            f"{what} is quantised, or prepared to be: expected the module of torch.float32 that it "
            "was made of"
        )
    if has_hooks(part):
        _refuse_hooks(part, what)
    full_name = f"{type(part).__module__}.{type(part).__qualname__}"
    is_known = full_name.startswith("torch.nn.modules.") or full_name in WHOLE_MODULES
    if is_known and is_altered(part):
        raise NetworkError(
            f"{what} has a forward of its own: expected what its class does; remove it"
        )


def _refuse_hooks(part: nn.Module, what: str) -> None:
    """Old forms of parametrisations are hooks: name what takes them off."""
    for hook in part._forward_pre_hooks.values():
        remove = _REMOVED_BY.get(type(hook).__module__)
        if remove is not None:
            raise NetworkError(
                f"{what} computes '{getattr(hook, 'name', 'weight')}' from other parameters "
                f"({type(hook).__name__}): expected plain parameters; {remove} makes them so"
            )
    raise NetworkError(
        f"{what} has hooks, which are not part of its forward: expected none; remove them"
    )


def _check_tensor(name: str, tensor: torch.Tensor) -> None:
    if nn.parameter.is_lazy(tensor):
        raise NetworkError(
            f"'{name}' has no shape yet (a lazy module): expected values; call the module once"
        )
    if tensor.is_meta:
        raise NetworkError(
            f"'{name}' is on the device meta, without values: expected values; "
            "module.to_empty(device='cpu') makes room for them, load_state_dict fills it"
        )
    if not (tensor.dtype == torch.float32 and tensor.layout == torch.strided):
        if not tensor.is_floating_point() and not tensor.is_complex() and not tensor.is_quantized:
            return  # a counter
        raise NetworkError(
            f"'{name}' is {tensor.dtype}, {tensor.layout}: expected torch.float32, torch.strided, "
            "a network trains in nothing else; module.float() makes it so of other real numbers"
        )
    if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
        raise NetworkError(f"'{name}' has hooks on its gradient: expected none; remove them")
    if isinstance(tensor, nn.Parameter) and not tensor.requires_grad:
        raise NetworkError(
            f"'{name}' is frozen (requires_grad = False): expected parameters that are trained, a "
            "network trains all; module.requires_grad_() lets PyTorch do so, too"
        )
