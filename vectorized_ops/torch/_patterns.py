"""Recognises modules and functions in a graph by what they do."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from vectorized_ops.epilogue import RELU, Epilogue
from vectorized_ops.numba.kernels.channels_last.lrn import has_kernel
from vectorized_ops.torch._alterations import stays_whole
from vectorized_ops.torch.convolution import has_plain_padding
from vectorized_ops.torch.lrn import LocalResponseNorm, local_response_norm
from vectorized_ops.torch.normalisation import BatchNorm2d
from vectorized_ops.torch.pooling import (
    MaxPool2d,
    adaptive_avg_pool2d,
    avg_pool2d,
    has_bytes,
    max_pool2d,
)

_RELU_FUNCTIONS = (functional.relu, functional.relu_, torch.relu, torch.relu_)
_ADDITIONS = (operator.add, operator.iadd, torch.add)
_CONCATENATIONS = (torch.cat, torch.concat, torch.concatenate)

REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    functional.max_pool2d: max_pool2d,
    functional.avg_pool2d: avg_pool2d,
    functional.adaptive_avg_pool2d: adaptive_avg_pool2d,
    functional.local_response_norm: local_response_norm,
}
"""Functions of PyTorch, and ours for them."""


def _bounded(module: Any) -> Epilogue | None:
    ceiling = float(module.max_val)
    return Epilogue(slope=0.0, ceiling=ceiling) if module.min_val == 0 and ceiling > 0 else None


def _leaky(module: Any) -> Epilogue | None:
    slope = float(module.negative_slope)
    return Epilogue(slope=slope) if 0 <= slope < math.inf else None


_GELUS = {"none": Epilogue("gelu"), "tanh": Epilogue("gelu_tanh")}

_ACTIVATIONS: dict[Any, Callable[[Any], Epilogue | None]] = {
    nn.ReLU6: _bounded,
    nn.Hardtanh: _bounded,
    nn.LeakyReLU: _leaky,
    nn.GELU: lambda module: _GELUS.get(module.approximate),
    nn.Hardsigmoid: lambda _: Epilogue("hard_sigmoid"),
    nn.Hardswish: lambda _: Epilogue("hard_swish"),
    nn.Sigmoid: lambda _: Epilogue("sigmoid"),
    nn.SiLU: lambda _: Epilogue("silu"),
    nn.Tanh: lambda _: Epilogue("tanh"),
}


_FUNCTIONS: dict[Any, Epilogue] = {
    functional.relu6: Epilogue(slope=0.0, ceiling=6.0),
    functional.gelu: Epilogue("gelu"),
    functional.hardsigmoid: Epilogue("hard_sigmoid"),
    functional.hardswish: Epilogue("hard_swish"),
    functional.silu: Epilogue("silu"),
    functional.sigmoid: Epilogue("sigmoid"),
    functional.tanh: Epilogue("tanh"),
    torch.sigmoid: Epilogue("sigmoid"),
    torch.tanh: Epilogue("tanh"),
}
"""Activation functions of PyTorch, without further arguments."""


def _methods_of(kind: Any) -> tuple[Any, ...]:
    """Return what the work of a layer of a class goes through."""
    return kind.__call__, kind.forward, getattr(kind, "_conv_forward", None)


_UNTOUCHED: dict[Any, Any] = {
    kind: _methods_of(kind)
    for kind in (
        nn.ReLU, *_ACTIVATIONS, nn.Conv2d, nn.BatchNorm2d, nn.LocalResponseNorm, nn.MaxPool2d,
        BatchNorm2d, LocalResponseNorm, MaxPool2d,
    )
}  # fmt: skip
"""The original methods of layers, to detect replaced ones."""

Modules = Mapping[str, nn.Module]


def uses(node: fx.Node) -> int:
    """Return how often the value of a node is taken; a taker may take it twice."""
    return sum(_inputs(user).count(node) for user in node.users)


def only_taker(node: fx.Node) -> fx.Node | None:
    """Return the one node that takes the value of this one, once."""
    return next(iter(node.users)) if uses(node) == 1 else None


def module_of(node: fx.Node, modules: Modules, *kinds: type[nn.Module]) -> Any:
    """Return the module that a node calls with one argument, if it is just one of these kinds."""
    if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
        return None
    module = modules[str(node.target)]
    return module if type(module) in kinds and _is_untouched(module) else None


def _is_untouched(module: nn.Module) -> bool:
    """Tell whether a layer does what its class did when PyTorch was imported, and no more."""
    kind = type(module)
    methods = _methods_of(kind)
    return methods == _UNTOUCHED.get(kind, methods) and not stays_whole(module)


def is_relu(node: fx.Node, modules: Modules) -> bool:
    """Tell whether a node takes the ReLU of another."""
    if node.op == "call_function":
        return node.target in _RELU_FUNCTIONS
    if node.op == "call_method":
        return node.target in ("relu", "relu_")
    return module_of(node, modules, nn.ReLU) is not None


def epilogue_of(node: fx.Node, modules: Modules) -> Epilogue | None:
    """Return the activation function that a node is, for what is given to it."""
    if is_relu(node, modules):
        return RELU
    if node.op == "call_function":
        named = _FUNCTIONS.get(node.target) if len(node.args) == 1 else None
        return named if set(node.kwargs) <= {"inplace"} else None
    module = module_of(node, modules, *_ACTIVATIONS)
    return None if module is None else _ACTIVATIONS[type(module)](module)


def convolution_of(node: fx.Node, modules: Modules) -> nn.Conv2d | None:
    """Return the layer of a node that can be a convolution in one with the ReLU behind it."""
    layer: nn.Conv2d | None = module_of(node, modules, nn.Conv2d)
    return layer if layer is not None and has_plain_padding(layer) else None


def normalisation_of(node: fx.Node, modules: Modules) -> nn.BatchNorm2d | None:
    """Return the layer of a node that is a batch normalisation."""
    layer: nn.BatchNorm2d | None = module_of(node, modules, nn.BatchNorm2d, BatchNorm2d)
    return layer


def response_of(node: fx.Node, modules: Modules) -> nn.LocalResponseNorm | None:
    """Return the layer of a node that is a local response normalisation with a kernel."""
    layer: nn.LocalResponseNorm | None = module_of(
        node, modules, nn.LocalResponseNorm, LocalResponseNorm
    )
    return layer if layer is not None and has_kernel(layer.size, layer.beta) else None


def max_pooling_of(node: fx.Node, modules: Modules) -> nn.MaxPool2d | None:
    """Return the layer of a node that is a max pooling with a kernel."""
    layer: nn.MaxPool2d | None = module_of(node, modules, nn.MaxPool2d, MaxPool2d)
    return layer if layer is not None and has_bytes(layer) else None


def summands_of(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """Return what a node adds if it adds two nodes, perhaps writing the sum over the first.

    Not if anybody looks at the first afterwards, who would see the sum.
    """
    adds = node.op == "call_function" and node.target in _ADDITIONS
    writes = node.target is operator.iadd or (node.op, node.target) == ("call_method", "add_")
    if not (adds or writes or (node.op, node.target) == ("call_method", "add")):
        return None
    if node.kwargs or len(node.args) != 2:
        return None
    first, second = node.args
    if not isinstance(first, fx.Node) or not isinstance(second, fx.Node):
        return None
    if writes and any(user > node for user in first.users):
        return None
    return first, second


def branches_of(node: fx.Node) -> tuple[fx.Node, ...] | None:
    """Return what a node concatenates channel by channel."""
    if node.op != "call_function" or node.target not in _CONCATENATIONS:
        return None
    given = dict(zip(("tensors", "dim"), node.args, strict=False)) | dict(node.kwargs)
    parts, dim = given.get("tensors"), given.get("dim", 0)
    if set(given) - {"tensors", "dim"} or dim not in (1, -3):
        return None
    if not isinstance(parts, (tuple, list)) or not all(isinstance(p, fx.Node) for p in parts):
        return None
    return tuple(part for part in parts if isinstance(part, fx.Node))


def replacement_of(node: fx.Node) -> tuple[Callable[..., Any], dict[str, Any]] | None:
    """Return our function for the one that a node calls, and its arguments by name."""
    if node.op != "call_function" or node.target not in REPLACEMENTS or not node.args:
        return None
    options = dict(node.kwargs)
    if node.target is functional.max_pool2d:
        gaps, places = options.pop("dilation", 1), options.pop("return_indices", False)
        if gaps not in (1, (1, 1), [1, 1]) or places or len(node.args) > 2:
            return None
    return REPLACEMENTS[node.target], options


def is_single_operation(node: fx.Node, modules: Modules) -> bool:
    """Tell whether a node calls a module of ours, or a convolution, that takes one tensor."""
    if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
        return False
    module = modules[str(node.target)]
    ours = type(module).__module__.startswith("vectorized_ops.torch.")
    return (ours or type(module) is nn.Conv2d) and _is_untouched(module)


def _inputs(node: fx.Node) -> list[fx.Node]:
    found: list[fx.Node] = []
    fx.node.map_arg((node.args, node.kwargs), found.append)
    return found
