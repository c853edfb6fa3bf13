"""What Numba works out at length, again and again, and kernels have in every line."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeVar, final

from numba.core import compiler as numba_compiler
from numba.core import types
from numba.core.imputils import lower_builtin as numba_lower_builtin
from numba.core.typing import templates as numba_templates

Flags: Any = numba_compiler.Flags  # Numba has no types for these three.
lower_builtin: Any = numba_lower_builtin
templates: Any = numba_templates

Result = TypeVar("Result")


@final
class KernelFlags(Flags):  # type: ignore[misc]
    """How a kernel is compiled, as part of the keys by which Numba finds what it has compiled.

    Numba sorts all options for a hash, and compares all of them, in each lookup of each function:
    a twentieth of the time. Keys that differ in the options alone are few: they share a hash.
    """

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> Any:
        return True if self is other else super().__eq__(other)


def on_one_stack(call: Callable[[], Result]) -> Result:
    """Return what `call()` returns; Python's stack has half a megabyte for it, in one piece.

    CPython maps its stack in pieces of 16 KiB, and unmaps each as soon as the first function in it
    returns. A loop whose calls cross the end of a piece maps and unmaps one in every turn: half of
    the page faults of compiling. A function that needs a large piece leaves room for many others.
    """
    return call()


on_one_stack.__code__ = on_one_stack.__code__.replace(co_stacksize=2**16 + 1)

_OF_INTEGERS: Final[dict[Any, Any]] = {(types.int64, types.int64): types.int64}
_SAME: Final[dict[Any, Any]] = {**_OF_INTEGERS, (types.float32, types.float32): types.float32}
_ORDER: Final = dict.fromkeys(_SAME, types.boolean)

_RESULTS: Final[dict[Callable[..., Any], dict[Any, Any]]] = {
    **dict.fromkeys((operator.add, operator.sub, operator.mul), _SAME),
    **dict.fromkeys((operator.iadd, operator.isub, operator.imul), _SAME),
    **dict.fromkeys((operator.lt, operator.le, operator.gt, operator.ge), _ORDER),
    **dict.fromkeys((operator.eq, operator.ne), _ORDER),
    **dict.fromkeys((operator.floordiv, operator.mod, min, max), _OF_INTEGERS),
}
"""The type of the result, by function and types of arguments."""


def _try_first(function: Callable[..., Any], results: dict[Any, Any]) -> None:
    """Let Numba know these types of a function before it looks at all others.

    It tries lists, arrays, sets and dates first. What is for this target comes before.
    """

    class Scalars(templates.AbstractTemplate):  # type: ignore[misc]
        metadata: Final = {"target": "cpu"}

        def generic(self, arguments: Any, keywords: Any) -> Any:
            result = None if keywords else results.get(arguments)
            return result and result(*arguments)

    templates.infer_global(function)(Scalars)


for _function, _results in _RESULTS.items():
    _try_first(_function, _results)


def _chosen_by(sign: str) -> Callable[..., Any]:
    """One comparison: Numba's own packs its arguments into a tuple, for a function of its own."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        left, right = values
        return builder.select(builder.icmp_signed(sign, right, left), right, left)

    return generate


lower_builtin(min, types.int64, types.int64)(_chosen_by("<"))
lower_builtin(max, types.int64, types.int64)(_chosen_by(">"))
