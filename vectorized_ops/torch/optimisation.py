"""Puts fused operations into a user's own model, for training on a CPU."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn

from vectorized_ops.torch import normalisation, pooling
from vectorized_ops.torch._alterations import is_altered
from vectorized_ops.torch._ambient import is_watched
from vectorized_ops.torch._classes import (
    Optimized,
    forget_passes,
    kind_of,
    optimized_class,
    passes_of,
    set_class,
)
from vectorized_ops.torch._passes import OptimizationWarning
from vectorized_ops.torch._tracing import TENSOR, Call, parameters_of
from vectorized_ops.torch.lrn import LocalResponseNorm
from vectorized_ops.torch.memory import keep_memory as keep_all_memory

__all__ = ["SINGLY", "Fusion", "OptimizationWarning", "fusion_of", "optimize", "plain"]

Model = TypeVar("Model", bound=nn.Module)

SINGLY: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm2d: normalisation.BatchNorm2d,
    nn.LocalResponseNorm: LocalResponseNorm,
    nn.MaxPool2d: pooling.MaxPool2d,
    nn.AvgPool2d: pooling.AvgPool2d,
    nn.AdaptiveAvgPool2d: pooling.AdaptiveAvgPool2d,
}
"""Modules that are replaced one by one, without regard to their neighbours."""

_BEFORE = {ours: theirs for theirs, ours in SINGLY.items()}


@dataclass(slots=True)
class Fusion:
    """The result of `optimize`: how many of each fused operation, by its parts.

    `refused` is why the forward pass could not be traced, or empty.
    """

    operations: Counter[str]
    refused: str = ""


def optimize(model: Model, keep_memory: bool = True) -> Model:
    """Let a model of your own train faster on a CPU; returns the model, which is changed.

    Its forward pass is traced by torch.fx, and a convolution, batch normalisation or residual
    addition is fused with the ReLU behind it. A pass that cannot be traced keeps its operations,
    because it looks at values, draws random numbers outside of tensors, or sets attributes, for
    example. OptimizationWarning says why, and only the modules in `SINGLY` are replaced.
    Activations become channels_last; results have the order of the arguments.

    Modules, parameters and buffers stay the same objects under the same names, so an optimizer made
    before continues to work and so does `state_dict`. The model's class becomes a subclass of its
    former one. `train()`, `eval()`, hooks, replaced modules and other arguments are noticed, and so
    are changes of all that the pass has read: attributes, globals. Then it is traced again, up to a
    limit: see docs/torch.md, also for what is not noticed. A layer with hooks or methods of its own
    is called as it is.

    Where PyTorch's own operations must be visible, as by torch.compile, torch.jit.trace, torch.func
    or hooks of all modules, the plain model runs. `plain(model)` undoes all.

    Results equal those of the plain model but for rounding (1e-6 of a layer's largest value or so)
    and its consequences, such as values that fall on the other side of a ReLU's zero. In bfloat16,
    by autocast or by modules of that type, an operation computes in float32 and rounds its result.
    Anything else, and what is not on the CPU, is computed by PyTorch as before. There are no second
    derivatives.

    With `keep_memory`, the whole process keeps the memory that it frees from then on: see
    `vectorized_ops.torch.keep_memory`, which is all that it calls.
    """
    if keep_memory:
        keep_all_memory()
    singly = Counter(exchanged(module) for module in model.modules())
    del singly[""]
    if type(model) in SINGLY.values():
        return model
    if not isinstance(model, Optimized):
        set_class(model, optimized_class(type(model)))
    passes = passes_of(model)
    passes.singly = singly + passes.singly
    _try_usual_call(model)
    return model


def plain(model: Model) -> Model:
    """Undo what `optimize` did to a model and to those in it; returns the model, which is changed.

    All of it is PyTorch's again, for tools that read the program of its forward pass:
    `torch.jit.script`, `torch.fx.symbolic_trace`. Parameters, buffers and hooks stay; the memory
    that the process keeps stays, too.

    Raises ValueError for a model whose class was changed again since, as by a parametrisation.
    """
    for module in model.modules():
        kind = type(module)
        if isinstance(module, Optimized):
            if kind is not optimized_class(kind_of(module)):
                raise ValueError(
                    f"{kind.__name__} was made of an optimised class: expected a model as "
                    "`optimize` left it; remove parametrisations first"
                )
            set_class(module, kind_of(module))
            forget_passes(module)
        elif (before := _in_place_of(kind, _BEFORE)) is not None:
            set_class(module, before)
    return model


def fusion_of(model: nn.Module) -> Fusion:
    """Return the result of `optimize` for a model, as of the last pass that was traced."""
    passes = passes_of(model)
    return Fusion(passes.fused + passes.singly, passes.refused)


def exchanged(module: nn.Module) -> str:
    """Replace the class of a module if there is a faster one; return the name of the old one."""
    kind = type(module)
    faster = _in_place_of(kind, SINGLY)
    if faster is None or is_altered(module):
        return ""
    set_class(module, faster)
    return kind.__name__


def _in_place_of(kind: type, kinds: dict[type[nn.Module], type[nn.Module]]) -> Any:
    """Return the other class; classes of programs may be of a kind that has no hash."""
    return next((other for one, other in kinds.items() if one is kind), None)


def _try_usual_call(model: nn.Module) -> None:
    """Follow the call with a tensor for everything that has to be given."""
    kind = kind_of(model)
    needed = [p for p in parameters_of(model, kind).values() if p.default is p.empty]
    if needed and not is_watched() and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in needed):
        passes_of(model).find(model, kind, Call((TENSOR,) * len(needed), ()))
