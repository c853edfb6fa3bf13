"""The tracer of a pass: the calls that become nodes of its graph, and what is known of values."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from vectorized_ops.torch import _looks as looks
from vectorized_ops.torch._alterations import has_hooks
from vectorized_ops.torch._ambient import modes, saving
from vectorized_ops.torch._reads import Reads
from vectorized_ops.torch._snapshots import weakly
from vectorized_ops.torch._values import Value

_MANY = (nn.RNNBase, nn.MultiheadAttention, nn.AdaptiveLogSoftmaxWithLoss)
"""Modules of PyTorch that give more than a tensor."""
_GIVE_TENSORS = (
    operator.add, operator.iadd, operator.sub, operator.mul, operator.truediv, operator.neg,
    torch.cat, torch.flatten, torch.relu, torch.add, torch.mul, functional.relu,
    functional.dropout, functional.interpolate, functional.pad, functional.avg_pool2d,
    functional.adaptive_avg_pool2d, "view", "reshape", "flatten", "permute", "contiguous", "mean",
    "relu", "add", "mul", "clone", "to", "float",
)  # fmt: skip

_A_TENSOR = torch.empty(0, dtype=torch.float32, device="meta")


class GivenArguments(Protocol):
    """What a forward pass is given."""

    @property
    def tensors(self) -> int:
        """How many tensors there are."""

    def filled(self, tensors: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with these in the places of the tensors."""


class Tracer(fx.Tracer):
    """Follows the call; modules of PyTorch and of ours, and those with hooks, stay whole."""

    proxy_buffer_attributes = True

    def __init__(self, forward: Callable[..., Any], call: GivenArguments, reads: Reads) -> None:
        super().__init__()
        self._forward_pass, self._call, self._reads = forward, call, reads
        self._modes, self._saving, self._thread = modes(), saving(), threading.get_ident()

    def create_args_for_root(self, *_root_and_its_arguments: Any) -> Any:
        """Make a placeholder per tensor, and let all other arguments be what they were."""
        proxies = [
            self.create_proxy("placeholder", f"tensor_{i}", (), {})
            for i in range(self._call.tensors)
        ]
        args, kwargs = self._call.filled(proxies)
        return lambda root: self._forward_pass(root, *args, **kwargs), [self.root]

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """Return the value of a node."""
        return Value(node, self)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make a node of a module that is called, or follow it; other threads just call it."""
        if threading.get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return the value of a module's tensor; to other threads the tensor."""
        if threading.get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Tell whether a module is one node of the graph."""
        ours = type(m).__module__.startswith("vectorized_ops.torch.")
        return ours or has_hooks(m) or super().is_leaf_module(m, module_qualified_name)

    def create_arg(self, a: Any) -> Any:
        """Return how a value stands in the graph; numbers of other types are Python's there."""
        if isinstance(a, (np.number, np.bool_)):
            return a.item()
        if isinstance(a, Enum) and isinstance(a.value, (int, float, str)):
            return a.value
        if isinstance(a, Tensor):
            self._reads.held[id(a)] = a
        if isinstance(a, dict) and type(a) is not dict:
            if type(a) is not OrderedDict:
                raise self.refusal(f"it makes a {type(a).__name__}")
            return self.create_node("call_function", OrderedDict, (super().create_arg(a),), {})
        return super().create_arg(a)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Add a node, under the modes that held when the pass began."""
        if modes() != self._modes:
            raise self._reads.refusal("it switches gradients or autocast on or off on its way")
        if saving() != self._saving:
            raise self._reads.refusal("it saves tensors in a way of its own (as checkpoints do)")
        return super().create_node(*args, **kwargs)

    def refusal(self, text: str) -> Exception:
        """Return the error for what a graph does not describe, to be raised."""
        return self._reads.refusal(text)

    def instance_of(self, node: fx.Node) -> Tensor:
        """Return a tensor for the value of a node; raises where it may be something else."""
        found = self.known_tensor(node)
        if found is None:
            raise self.refusal(f"it asks what {node} is")
        return found

    def known_tensor(self, node: fx.Node) -> Tensor | None:
        """Return a tensor for the value of a node, None where it may be something else."""
        if node.op == "get_attr":
            return self._tensor(node)
        if node.op == "call_module":
            module = self.root.get_submodule(str(node.target))
            known = not isinstance(module, _MANY) and not getattr(module, "return_indices", False)
        else:
            known = node.op == "placeholder" or node.target in _GIVE_TENSORS
        return _A_TENSOR if known else None

    def trained(self, node: fx.Node) -> Any:
        """Return whether the tensor of a node has a gradient: as things are, or as a value."""
        if node.op != "get_attr":
            return fx.proxy.Attribute(Value(node, self), "requires_grad")
        path, _, name = str(node.target).rpartition(".")
        self._reads.note_property(self.root.get_submodule(path), name, "requires_grad")
        return self._tensor(node).requires_grad

    def _tensor(self, node: fx.Node) -> Tensor:
        path, _, name = str(node.target).rpartition(".")
        tensor: Tensor = looks.tensor((weakly(self.root.get_submodule(path)), name))
        return tensor

    def to_bool(self, obj: fx.Proxy) -> bool:
        """Refuse what depends on values, whatever the pass does about errors."""
        raise self._reads.refusal(f"TraceError: it asks whether {obj.node} is true")

    def iter(self, obj: fx.Proxy) -> Any:
        """Refuse what takes a tensor apart, as above."""
        raise self._reads.refusal(f"TraceError: it iterates over {obj.node}")
