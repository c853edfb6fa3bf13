"""Converts PyTorch modules to networks."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms import READERS, TORCH_NAMES, check_settings
from knltrain.network.layers import Layer
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from vectorized_ops.torch._alterations import stays_whole


def from_torch(
    module: nn.Sequential, input_shape: tuple[int, int, int], name: str = "imported"
) -> tuple[Network, ParameterVector]:
    """A network for images (H,W,C) and a copy of its parameters from a chain of modules.

    Understands a plain nn.Sequential of the modules in READERS and Flatten, of float32 values that
    are all trained; NetworkError names any module, setting or tensor that a network cannot express.
    A forward pass is not read, so no module may have one of its own.
    """
    _check_chain(module)
    children = [(key, child) for key, child in module._modules.items() if child is not None]
    _check_shared(children)
    layers = tuple(
        _layer(child_name, child)
        for child_name, child in children
        if _plain(child_name, child) is not nn.Flatten
    )
    _check_flattening(children)
    network = Network(name, input_shape, layers)
    parameters = ParameterVector(network)
    for spec in network.parameters:
        values = _values(spec.layer, module._modules[spec.layer], TORCH_NAMES[spec.role])
        if values.shape != spec.shape:
            raise NetworkError(
                f"{spec.name}: images of shape {input_shape} need {spec.shape}, but the module "
                f"has {values.shape}: give the (height, width, channels) that it was built for"
            )
        parameters.views[spec.name][...] = values
    return network, parameters


def _values(name: str, module: nn.Module | None, key: str) -> np.ndarray:
    """Return a tensor of a module as an array; NetworkError for an unsupported one."""
    tensor: object = getattr(module, key, None)
    whose = f"module '{name}': {key}"
    if not isinstance(tensor, torch.Tensor):
        raise NetworkError(f"{whose} is {tensor!r}: expected a tensor, as the module was made with")
    if tensor.is_meta:
        raise NetworkError(
            f"{whose} is on the device meta, without values: expected values; "
            "module.to_empty(device='cpu') makes room for them, load_state_dict fills it"
        )
    if tensor.dtype != torch.float32 or tensor.layout != torch.strided:
        raise NetworkError(
            f"{whose} is {tensor.dtype}, {tensor.layout}: expected torch.float32, torch.strided, "
            "a network trains in nothing else; module.float() makes it so of other real numbers"
        )
    if isinstance(tensor, nn.Parameter) and not tensor.requires_grad:
        raise NetworkError(
            f"{whose} is frozen (requires_grad = False): expected parameters that are trained, a "
            "network trains all; module.requires_grad_() lets PyTorch do so, too"
        )
    return tensor.detach().cpu().numpy()


def _check_chain(module: nn.Module) -> None:
    if type(module) is nn.Sequential and not stays_whole(module):
        return
    kind = type(module).__name__
    more = " with hooks or a forward of its own" if type(module) is nn.Sequential else ""
    raise NetworkError(
        f"a network was to be made of {kind}{more}, whose forward pass cannot be read: expected a "
        "plain nn.Sequential; write its layers, functions such as torch.relu as modules (nn.ReLU), "
        "in their order into nn.Sequential(...). What `optimize` changed is plain again after "
        "vectorized_ops.torch.plain(model)"
    )


def _plain(name: str, module: nn.Module) -> type[nn.Module]:
    """Return a module's class, if the class alone determines what it computes."""
    if stays_whole(module):
        raise NetworkError(
            f"module '{name}': {type(module).__name__} with hooks or a forward of its own is not "
            "supported: expected a module that does what its class does; remove them first"
        )
    return type(module)


def _check_shared(children: list[tuple[str, nn.Module]]) -> None:
    """Raise NetworkError for shared parameters: a network would have two copies."""
    first: dict[int, str] = {}
    for name, child in children:
        for parameter in child.parameters():
            before = first.setdefault(id(parameter), name)
            if before != name:
                raise NetworkError(
                    f"module '{name}': {type(child).__name__} has the parameters of '{before}': "
                    "expected parameters of its own, a network does not share them"
                )


def _layer(name: str, module: nn.Module) -> Layer:
    kind = type(module).__name__
    if kind in READERS and getattr(nn, kind) is type(module):
        return READERS[kind](name, module)
    known = ", ".join(READERS)
    raise NetworkError(
        f"module '{name}': {type(module).__name__} is not supported: expected {known} or Flatten "
        "themselves, no classes made of them"
    )


def _check_flattening(children: list[tuple[str, nn.Module]]) -> None:
    """Maps become vectors in one place: a Flatten before the first Linear or at the end.

    A network has no layer for it: its dense layers take maps, and global pooling makes vectors.
    """
    flat = vectors = False  # `flat` as PyTorch sees it, `vectors` as a network does.
    for name, child in children:
        fits_both = isinstance(child, nn.Dropout | nn.ReLU | nn.LeakyReLU | nn.ReLU6)
        if isinstance(child, nn.Flatten):
            check_settings(name, child, start_dim=1, end_dim=-1)
        if not fits_both and isinstance(child, nn.Linear) != flat:
            raise NetworkError(
                f"module '{name}': expected a Flatten between feature maps and the first Linear, "
                "and nowhere else"
            )
        flat = flat or isinstance(child, nn.Flatten)
        vectors = vectors or isinstance(child, nn.Linear | nn.AdaptiveAvgPool2d)
    if flat != vectors:
        raise NetworkError(
            f"module '{children[-1][0]}' at the end: expected a Flatten behind global pooling, and "
            "none where neither it nor a Linear makes the maps vectors"
        )
