"""A user's own model with fused operations in it, for training on a CPU."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, fx, nn

from vectorized_ops.torch import normalisation, pooling
from vectorized_ops.torch._fusion import fuse
from vectorized_ops.torch._rows import is_plain, pixelwise
from vectorized_ops.torch._tracing import TENSOR, Call, NotTraceableError, condition, trace
from vectorized_ops.torch.lrn import LocalResponseNorm
from vectorized_ops.torch.memory import keep_memory as keep_all_memory

Model = TypeVar("Model", bound=nn.Module)

SINGLY: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm2d: normalisation.BatchNorm2d,
    nn.LocalResponseNorm: LocalResponseNorm,
    nn.MaxPool2d: pooling.MaxPool2d,
    nn.AvgPool2d: pooling.AvgPool2d,
    nn.AdaptiveAvgPool2d: pooling.AdaptiveAvgPool2d,
}
"""Modules that are exchanged one by one, whatever stands beside them."""


class OptimizationWarning(UserWarning):
    """A model whose forward pass stays as it is, but for single modules."""


@dataclass(slots=True)
class Fusion:
    """What `optimize` made of a model: how many of each operation, by what they are made of.

    `refused` is why the forward pass could not be followed, or empty.
    """

    operations: Counter[str]
    refused: str = ""


def optimize(model: Model, keep_memory: bool = True) -> Model:
    """Let a model of your own train faster on a CPU; returns the model, which is changed.

    Its forward pass is followed by torch.fx, and a convolution, batch normalisation or residual
    addition becomes one operation with the ReLU behind it. A pass that cannot be followed, because
    it looks at values, draws random numbers outside of tensors, or sets attributes for example,
    keeps its operations (OptimizationWarning says why), and only the modules in `SINGLY` are
    exchanged. Activations become channels_last.

    Modules, parameters and buffers stay the same objects under the same names, so an optimizer made
    before goes on working and so does `state_dict`. The model's class becomes a subclass of what it
    was. `train()`, `eval()`, hooks, exchanged modules and other arguments are noticed, and the pass
    is followed anew. What torch.fx is blind for is not: a pass that asks whether something is a
    tensor, or keeps what it computes in a list of its own, is better left as it is.

    Results equal those of the plain model but for rounding (1e-6 of a layer's largest value or so)
    and what follows from it, such as values that fall on the other side of a ReLU's zero. Anything
    but float32 on the CPU is computed by PyTorch as before. There are no second derivatives.

    With `keep_memory`, the whole process keeps the memory that it frees from then on: see
    `vectorized_ops.torch.keep_memory`, which is all that it calls.
    """
    if keep_memory:
        keep_all_memory()
    singly = Counter(exchanged(module) for module in model.modules())
    del singly[""]
    if type(model) in SINGLY.values():
        return model
    if not isinstance(model, _Optimized):
        kind: Any = type(model)
        model.__class__ = optimized_class(kind)
    graphs = _graphs_of(model)
    graphs.singly = singly + graphs.singly
    _try_usual_call(model, graphs)
    return model


def fusion_of(model: nn.Module) -> Fusion:
    """Return what `optimize` made of a model, as of the last pass that it followed."""
    graphs = _graphs_of(model)
    return Fusion(graphs.fused + graphs.singly, graphs.refused)


def exchanged(module: nn.Module) -> str:
    """Exchange the class of a module if there is a faster one; return the name of the old one."""
    kind = type(module)
    if kind not in SINGLY:
        return ""
    module.__class__ = SINGLY[kind]
    return kind.__name__


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass that was followed, and the tensors that it found as attributes of modules."""

    graph: fx.GraphModule
    tensors: tuple[tuple[nn.Module, str, Tensor], ...]

    @classmethod
    def of(cls, model: nn.Module, graph: fx.Graph) -> Pass:
        """Return the pass that a graph of the model describes."""
        names = [str(node.target) for node in graph.nodes if node.op == "get_attr"]
        paths = [name.rpartition(".") for name in names]
        places = [(model.get_submodule(path), last) for path, _, last in paths]
        values = [(owner, name, getattr(owner, name)) for owner, name in places]
        tensors = tuple(value for value in values if isinstance(value[2], Tensor))
        return cls(fx.GraphModule(model, graph), tensors)

    def is_outdated(self) -> bool:
        """Tell whether other tensors have taken the place of those that were found."""
        return any(getattr(owner, name) is not value for owner, name, value in self.tensors)


@dataclass(slots=True)
class _Graphs:
    """The passes of a model that were followed; None for those that could not be."""

    passes: dict[tuple[Any, ...], Pass | None] = field(default_factory=dict)
    fused: Counter[str] = field(default_factory=Counter)
    singly: Counter[str] = field(default_factory=Counter)
    refused: str = ""

    def find(self, model: nn.Module, call: Call) -> fx.GraphModule | None:
        """Return the pass of such a call under the present modes."""
        key = condition(model), call, call.kinds, torch.is_grad_enabled()
        known = self.passes.get(key)
        if key not in self.passes or (known is not None and known.is_outdated()):
            known = self.passes[key] = self._follow(model, call)
        return None if known is None else known.graph

    def _follow(self, model: nn.Module, call: Call) -> Pass | None:
        forward = _forward_of(model)
        try:
            graph = trace(model, lambda _root, *args, **kwargs: forward(*args, **kwargs), call)
            self.fused = fuse(graph, dict(model.named_modules(remove_duplicate=False)))
            self.refused = ""
            return Pass.of(model, graph)
        except NotTraceableError as error:
            self.refused = str(error)
            name = type(model).__name__.removeprefix(_PREFIX)
            warnings.warn(
                f"{name} could not be followed: {error}; its modules were exchanged one by one",
                OptimizationWarning,
                stacklevel=6,
            )
            return None


_PREFIX = "Optimized"


class _Optimized(nn.Module):
    """The forward pass of a model by the graph that was made of it."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute what the model computes."""
        call, tensors = Call.of(args, kwargs)
        if call is None or not tensors or not is_plain(tensors[0]):
            return super().forward(*args, **kwargs)
        followed = _graphs_of(self).find(self, call)
        tensors = [pixelwise(tensor) if tensor.dim() == 4 else tensor for tensor in tensors]
        if followed is not None:
            return followed.forward(*tensors)
        filled, named = call.filled(tensors)
        return super().forward(*filled, **named)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        state = {name: value for name, value in self.__dict__.items() if name != _GRAPHS}
        return _restored, (type(self).__mro__[2],), state


_GRAPHS = "_followed_graphs"


def _graphs_of(model: nn.Module) -> _Graphs:
    graphs = model.__dict__.get(_GRAPHS)
    if graphs is None:
        graphs = model.__dict__[_GRAPHS] = _Graphs()
    return cast(_Graphs, graphs)


def _forward_of(model: Any) -> Any:
    """Return the forward pass of the class that a model had."""
    return super(_Optimized, model).forward


@cache
def optimized_class(kind: Any) -> Any:
    """Return the subclass that takes the place of a model's class."""
    return type(f"{_PREFIX}{kind.__name__}", (_Optimized, kind), {"__module__": kind.__module__})


def _restored(kind: Any) -> nn.Module:
    """Return an empty model, for pickle and deepcopy to fill."""
    model: nn.Module = kind.__new__(kind)
    model.__class__ = optimized_class(kind)
    return model


def _try_usual_call(model: nn.Module, graphs: _Graphs) -> None:
    """Follow the call with a tensor for everything that has to be given."""
    parameters = inspect.signature(_forward_of(model)).parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    if all(p.kind is p.POSITIONAL_OR_KEYWORD for p in needed):
        graphs.find(model, Call((TENSOR,) * len(needed), ()))
