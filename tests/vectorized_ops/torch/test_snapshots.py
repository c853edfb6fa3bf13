from __future__ import annotations

import array
import ctypes
import functools
import gc
import itertools
import random
import weakref
from collections import OrderedDict, deque
from contextvars import ContextVar
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from vectorized_ops.torch._snapshots import GeneratorError, TooLargeError, is_fixed, snapshot


class Slotted:
    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = [1.0]


class Hidden:
    __slots__ = ("__rate",)

    def __init__(self) -> None:
        self.__rate = [1.0]

    def change(self) -> None:
        self.__rate.append(2.0)


class Bytes(bytearray):
    """With attributes beside its memory."""


def called(value: float, factors: list[float] = [1.0], *, more: Any = None) -> Any:  # noqa: B006
    return value, factors, more


BYTES, TABLE = bytearray(3), {"a": 1.0}
VARIABLE: ContextVar[float] = ContextVar("variable", default=1.0)


class Empty:
    """Has no attributes of its own yet."""

    rate = 1.0

    def rated(self) -> float:
        return self.rate


def add(value: float, more: float = 1) -> float:
    return value + more


CHANGES: dict[str, tuple[Any, Any]] = {
    "list": ([1, [2]], lambda value: value[1].append(3)),
    "dict": ({"a": {"b": 1.0}}, lambda value: value["a"].update(b=2.0)),
    "key": ({"a": 1}, lambda value: value.update(b=1)),
    "ordered": (OrderedDict(a=1, b=2), lambda value: value.move_to_end("a")),
    "set": ({1, 2}, lambda value: value.add(3)),
    "deque": (deque([1]), lambda value: value.append(2)),
    "object": (SimpleNamespace(p=SimpleNamespace(q=1)), lambda value: setattr(value.p, "q", 2)),
    "first attribute": (Empty(), lambda value: setattr(value, "rate", 2.0)),
    "of a method": (Empty().rated, lambda value: setattr(value.__self__, "rate", 2.0)),
    "slots": (Slotted(), lambda value: value.rate.append(2.0)),
    "hidden slots": (Hidden(), Hidden.change),
    "proxy": (MappingProxyType(TABLE), lambda _: TABLE.update(a=2.0)),
    "bytes": (bytearray(3), lambda value: value.__setitem__(1, 7)),
    "kind of bytes": (Bytes(3), lambda value: value.__setitem__(1, 7)),
    "array of numbers": (array.array("d", [1, 2]), lambda value: value.__setitem__(1, 7)),
    "memory": (memoryview(BYTES), lambda _: BYTES.__setitem__(1, 7)),
    "number of C": (ctypes.c_float(1.0), lambda value: setattr(value, "value", 2.0)),
    "variable of a context": (VARIABLE, lambda value: value.set(2.0)),
    "default": (called, lambda value: value.__defaults__[0].append(2.0)),
    "array": (np.zeros(3), lambda value: value.fill(1)),
    "partial": (functools.partial(add, more=[1]), lambda value: value.keywords["more"].append(1)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_inside_is_seen(what: str) -> None:
    value, change = CHANGES[what]
    before = snapshot(value)
    assert snapshot(value) == before
    assert not is_fixed(value, before)
    change(value)
    assert snapshot(value) != before


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0.0, -0.0), ((1,), [1]), ("1", b"1"), (add, len), (torch.ones(1),) * 2],
)
def test_other_values_are_told_apart(one: Any, other: Any) -> None:
    other = other.clone() if isinstance(other, torch.Tensor) else other
    assert snapshot(one) != snapshot(other)


@pytest.mark.parametrize("value", [1, 1.5, "a", None, (1, 2.0), torch.float32, float("nan")])
def test_equal_values_are_the_same(value: Any) -> None:
    assert snapshot(value) == snapshot(value)
    assert is_fixed(value, snapshot(value))


def test_what_is_in_itself_ends() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert snapshot(value) == snapshot(value)


@pytest.mark.parametrize("value", [list(range(3000)), np.zeros(100_000), bytearray(100_000)])
def test_large_values_are_not_compared(value: Any) -> None:
    with pytest.raises(TooLargeError):
        snapshot(value)


@pytest.mark.parametrize(
    "value",
    [
        random.Random(0),
        SimpleNamespace(inner=[np.random.default_rng(0)]),
        np.random.RandomState(0),
        random.Random(0).random,
        random.Random(0).uniform,
        np.random.default_rng(0).random,
        itertools.count(),
        [iter([1, 2])],
    ],
)
def test_random_generators_and_iterators_are_told(value: Any) -> None:
    with pytest.raises(GeneratorError):
        snapshot(value)


def test_functions_inside_are_handed_on() -> None:
    found: list[Any] = []
    snapshot({"f": [add, Slotted().__init__]}, found.append)  # type: ignore[misc]
    assert found == [add, Slotted.__init__]


def test_a_function_that_has_itself_ends() -> None:
    def function() -> None: ...

    function.again = function  # type: ignore[attr-defined]
    before = snapshot(function)
    assert snapshot(function) == before
    function.more = 1  # type: ignore[attr-defined]
    assert snapshot(function) != before


def test_what_was_looked_at_is_not_kept() -> None:
    layer = torch.nn.ReLU()
    before, gone = snapshot([layer]), weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None
    assert snapshot([torch.nn.ReLU()]) != before
