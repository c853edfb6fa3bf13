"""The values of a pass while it is traced."""

from __future__ import annotations

import builtins
import contextlib
import operator
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx

from vectorized_ops.torch import _looks as looks


@contextlib.contextmanager
def asked_of_values() -> Iterator[None]:
    """Let a program that asks whether a value is a tensor hear what it would hear of one."""
    usual = builtins.isinstance

    def asked(value: Any, kinds: Any) -> bool:
        if type(value) is Value:
            frame = sys._getframe(1)
            if looks.is_of_program(frame) or frame.f_code is torch.is_tensor.__code__:
                tracer: Any = value.tracer
                return usual(tracer.instance_of(value.node), kinds)
        return usual(value, kinds)

    builtins.isinstance = asked
    try:
        yield
    finally:
        builtins.isinstance = usual


_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")


class Value(fx.Proxy):
    """A value of the pass; `a += b` writes over it, so that others who have it see the sum."""

    __array_priority__ = 1000  # NumPy's numbers leave operations to it, as to tensors

    def __getattr__(self, k: str) -> Any:
        tracer: Any = self.__dict__["tracer"]
        if not hasattr(Tensor, k) and tracer.known_tensor(self.__dict__["node"]) is not None:
            raise AttributeError(f"a tensor has no attribute '{k}'")
        return super().__getattr__(k)

    def __len__(self) -> int:
        tracer: Any = self.tracer
        raise tracer.refusal(f"TraceError: it asks for the length of {self.node}")

    @property
    def requires_grad(self) -> Any:
        """Of a tensor of the model, whether it is trained, which is noted."""
        tracer: Any = self.tracer
        return tracer.trained(self.node)


for _name in _IN_PLACE:
    _function = getattr(operator, f"i{_name}")

    def _in_place(self: Value, other: Any, function: Any = _function) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    setattr(Value, f"__i{_name}__", _in_place)
