"""The class of an optimised model: a generated subclass of the model's own."""

from __future__ import annotations

import abc
import functools
import inspect
from types import FunctionType
from typing import Any, cast

from torch import Tensor, nn

from vectorized_ops.torch._ambient import has_global_hooks, in_plain_order, is_watched
from vectorized_ops.torch._looks import PASSES
from vectorized_ops.torch._order import (
    asks_for_order,
    entered,
    is_in_plain_order,
    left,
    order_of,
    ordered,
)
from vectorized_ops.torch._passes import PREFIX, Passes
from vectorized_ops.torch._reads import KIND
from vectorized_ops.torch._rows import is_plain
from vectorized_ops.torch._tracing import Call, bound_forward


class Optimized(nn.Module):
    """A model whose forward pass runs by its traced graph."""

    def __init_subclass__(cls, **_given: Any) -> None:
        """Do nothing: hooks of the model's class are for classes that people write."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        if not isinstance(reduced, tuple):
            return reduced
        make, args, *rest = reduced
        make, *args = (kind_of(self) if each is type(self) else each for each in (make, *args))
        return (_made_again, (make, tuple(args)), *rest)


def kind_of(model: nn.Module) -> Any:
    """Return the class that an optimised model had."""
    return getattr(type(model), KIND)


def passes_of(model: nn.Module) -> Passes:
    """Return the passes of a model that were followed."""
    passes = model.__dict__.get(PASSES)
    if passes is None:
        passes = model.__dict__[PASSES] = Passes()
    return cast(Passes, passes)


def set_class(model: nn.Module, kind: Any) -> None:
    """Give a model a class, whatever its own does when attributes are set."""
    object.__setattr__(model, "__class__", kind)


def forget_passes(model: nn.Module) -> None:
    """Let nothing of an optimised model be left in its attributes."""
    model.__dict__.pop(PASSES, None)


_made: dict[int, Any] = {}
"""Optimised classes by the identities of those before, which they keep alive."""


def optimized_class(kind: Any) -> Any:
    """Return the subclass that takes the place of a model's class."""
    if id(kind) not in _made:
        _made[id(kind)] = _new_class(kind)
    return _made[id(kind)]


def _new_class(kind: Any) -> Any:
    """Return a subclass; neither metaclasses of the program nor its class hooks hear of it."""
    is_method = isinstance(inspect.getattr_static(kind, "forward"), FunctionType)

    @functools.wraps(kind.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_watched() or has_global_hooks():
            if is_method:  # said so that torch.compile can read it
                return kind.forward(self, *args, **kwargs)
            return bound_forward(self, kind)(*args, **kwargs)
        return _computed(self, kind, args, kwargs)

    names = {
        "__module__": kind.__module__, "__qualname__": f"{PREFIX}{kind.__qualname__}",
        "__doc__": kind.__doc__, "__slots__": (), "forward": forward, KIND: kind,
    }  # fmt: skip
    maker: Any = abc.ABCMeta if issubclass(type(kind), abc.ABCMeta) else type
    return maker.__new__(type(kind), f"{PREFIX}{kind.__name__}", (Optimized, kind), names)


def _computed(model: nn.Module, kind: Any, args: Any, kwargs: Any) -> Any:
    """Compute what the model computes, by its graph if there is one."""
    call, tensors = Call.of(args, kwargs)
    followed = None
    if call is not None and tensors and is_plain(tensors[0]):
        followed = passes_of(model).find(model, kind, call)
    if followed is None and is_in_plain_order((args, kwargs)) and asks_for_order(model):
        with in_plain_order():
            return bound_forward(model, kind)(*args, **kwargs)
    with order_of((args, kwargs)):
        images = [entered(tensor) if _are_images(tensor) else tensor for tensor in tensors]
        if followed is not None:
            return left(followed(model, *images), tensors, images)
        if call is None or not tensors or not is_plain(tensors[0]):
            return ordered(bound_forward(model, kind)(*args, **kwargs))
        args, kwargs = call.filled(images)
        return left(bound_forward(model, kind)(*args, **kwargs), tensors, images)


def _are_images(tensor: Tensor) -> bool:
    return tensor.dim() == 4


def _made_again(make: Any, args: tuple[Any, ...]) -> nn.Module:
    """Return an optimised model, for pickle and deepcopy to fill."""
    model: nn.Module = make(*args)
    if not isinstance(model, Optimized):
        set_class(model, optimized_class(type(model)))
    return model
