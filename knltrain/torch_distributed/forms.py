"""The overloads of process group methods: the form of torch's functions, and those of users.

``pg.allreduce([x], options)``, ``pg.allreduce([x], ReduceOp.MAX)``, ``pg.allreduce(x)``: torch's
own groups overload each method by argument types. Here a method is written for the first form; the
other forms are converted to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral
from typing import Any, TypeVar

import torch
from torch.distributed import ReduceOp

Method = TypeVar("Method", bound=Callable[..., Any])

_OF_OPTIONS = {"op": "reduceOp", "root": "rootRank", "timeout": "timeout"}
_LEFT_OUT = object()


@dataclass(frozen=True, slots=True)
class _Argument:
    """One argument of a form: a tensor in so many lists, or what its name says."""

    name: str
    depth: int | None

    @staticmethod
    def of(text: str) -> _Argument:
        """Read "tensors[]": one list of tensors; "input[0]" is a tensor, "root" is none."""
        name, bracket, rest = text.partition("[")
        if not bracket:
            return _Argument(name, None)
        return _Argument(name, 0 if rest == "0]" else text.count("["))

    def takes(self, given: Any, options: type) -> bool:
        """Whether something may be given for it."""
        if given is _LEFT_OUT:
            return self.name in ("opts", "op", "timeout")
        if self.depth is not None:
            return _is_nested(given, self.depth)
        if self.name == "opts":
            return isinstance(given, options)
        if self.name == "op":
            return isinstance(given, ReduceOp | ReduceOp.RedOpType)
        if self.name == "timeout":
            return given is None or isinstance(given, timedelta)
        if self.name.endswith("sizes"):
            return isinstance(given, Sequence)
        return isinstance(given, Integral)


def _is_nested(given: Any, depth: int) -> bool:
    if not depth:
        return isinstance(given, torch.Tensor)
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    return is_list and all(_is_nested(each, depth - 1) for each in given)


def takes(options: type, *forms: str) -> Callable[[Method], Method]:
    """Make a method, written for the first of ``forms``, callable in all of them.

    A form is its arguments: "tensors[] opts" and "tensor[0] root timeout". Tensors in fewer lists
    than in the first form are put in lists, and the rest into ``options``, the last argument.
    A call that has none of the forms raises TypeError.
    """
    read = [[_Argument.of(text) for text in form.split()] for form in forms]
    count = len(read[0])

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            if len(given) == count and type(given[-1]) is options:
                return method(self, *given, **named)
            return method(self, *_arranged(method.__name__, options, read, given, named))

        return call  # type: ignore[return-value]

    return decorate


def _arranged(
    name: str,
    options: type,
    forms: Sequence[Sequence[_Argument]],
    given: Sequence[Any],
    named: dict[str, Any],
) -> list[Any]:
    """Return the arguments of a call in the first form."""
    for form in forms:
        bound = _bound(form, given, named)
        if bound is not None and all(
            argument.takes(value, options) for argument, value in zip(form, bound, strict=True)
        ):
            return _in_first_form(forms[0], form, bound, options)
    expected = "; ".join(
        f"{name}({', '.join(argument.name for argument in form)})" for form in forms
    )
    kinds = [*map(_kind, given), *(f"{key}={_kind(value)}" for key, value in named.items())]
    raise TypeError(f"{name}({', '.join(kinds)}): expected {expected}")


def _bound(
    form: Sequence[_Argument], given: Sequence[Any], named: dict[str, Any]
) -> list[Any] | None:
    rest = [argument.name for argument in form[len(given) :]]
    if len(given) > len(form) or not set(named) <= set(rest):
        return None
    return [*given, *(named.get(name, _LEFT_OUT) for name in rest)]


def _in_first_form(
    first: Sequence[_Argument], form: Sequence[_Argument], bound: Sequence[Any], options: type
) -> list[Any]:
    made, arguments = options(), list[Any]()
    for number, (argument, value) in enumerate(zip(form, bound, strict=True)):
        if argument.name == "opts":
            made = made if value is _LEFT_OUT else value
        elif argument.name in _OF_OPTIONS:
            if value is not _LEFT_OUT and value is not None:
                setattr(made, _OF_OPTIONS[argument.name], value)
        elif argument.depth is None:
            arguments.append(value)
        else:
            for _ in range((first[number].depth or 0) - argument.depth):
                value = [value]
            arguments.append(value)
    return [*arguments, made]


def _kind(given: Any) -> str:
    if isinstance(given, list | tuple):
        return f"[{_kind(given[0])}]" if given else "[]"
    return type(given).__name__
