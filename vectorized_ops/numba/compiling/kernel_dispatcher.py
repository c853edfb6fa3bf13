"""Dispatchers of kernels, of which each is optimised and made into machine code only once.

Numba compiles a function that another one calls by itself: optimised, in machine code, with a
wrapper for calls from Python; then it links it into the caller, and optimises it there again. Here
what a kernel calls is linked into it as it is, and Python's wrapper is made for what Python calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from numba.core import codegen as numba_codegen
from numba.core import compiler as numba_compiler
from numba.core import dispatcher as numba_dispatcher
from numba.core import registry, types

from vectorized_ops.numba.compiling.recording import LEAST_SIZE, WantedKernel, active_recorder
from vectorized_ops.numba.fingerprint import code_size

compiler: Any = numba_compiler  # Numba has no types for these four.
codegen: Any = numba_codegen
dispatcher: Any = numba_dispatcher
Dispatcher: Any = registry.CPUDispatcher


@final
class KernelDispatcher(Dispatcher):  # type: ignore[misc]
    """What Python calls as a kernel; kernels that name it call a `LinkedDispatcher`.

    Numba compiles `as_compiled(function)`, if it is given, in place of the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        as_compiled: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(py_func=function, targetoptions=options)
        if as_compiled is not None:
            self._compiler._get_implementation = lambda *_: as_compiled(function)
        self._linked = LinkedDispatcher(function, options, as_compiled)
        self.typingctx._remove_global(self)
        self.typingctx.insert_global(self, self._numba_type_)

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self._linked)

    def _compile_for_args(self, *arguments: Any) -> Any:
        """Called for types that are new; what it returns is called in place of the kernel."""
        recorder = active_recorder()
        if recorder is None:
            return super()._compile_for_args(*arguments)
        kinds = tuple(map(self.typeof_pyval, arguments))
        recorder.note((self, kinds), partial(self._wanted, kinds))
        is_plain = all(isinstance(kind, (types.Number, types.Boolean)) for kind in kinds)
        return self.py_func if is_plain else _does_nothing

    def _wanted(self, kinds: tuple[Any, ...]) -> WantedKernel:
        names, told = (
            self._cache.names_of(kinds, self.targetctx),
            (self.py_func.__name__, str(kinds)),
        )
        make = partial(self.compile, kinds)
        return WantedKernel(names, told, self._size, make, self._cache.shared)

    def _size(self) -> int:
        return LEAST_SIZE + code_size(self)


def _does_nothing(*_: Any) -> float:
    return 0.0


@final
class LinkedDispatcher(Dispatcher):  # type: ignore[misc]
    """What stands for a kernel in the code of others: it is compiled for them, and never called."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        as_compiled: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(py_func=function, targetoptions=options)
        self._keys: dict[tuple[Any, ...], object] = {}
        self._compiler = _LinkedCompiler(function, self.targetdescr, options, {}, compiler.Compiler)
        if as_compiled is not None:
            self._compiler._get_implementation = lambda *_: as_compiled(function)

    def add_overload(self, compiled: Any) -> None:
        """Make the code known to those that call it, by a key that stands for an address."""
        arguments = tuple(compiled.signature.args)
        self.overloads[arguments] = compiled
        key = self._keys[arguments] = object()
        self.targetctx.insert_user_function(key, compiled.fndesc, [compiled.library])

    def get_overload(self, arguments: tuple[Any, ...]) -> object:
        """Return the key of the code for the types of arguments."""
        return self._keys[tuple(arguments)]


@final
class _LinkedCompiler(dispatcher._FunctionCompiler):  # type: ignore[misc]
    """Compiles into a library that is only ever linked into others."""

    def _compile_core(self, arguments: Any, return_type: Any) -> Any:
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        target, function = self.targetdescr.target_context, self._get_implementation(arguments, {})
        return compiler.compile_extra(
            self.targetdescr.typing_context, target, function, arguments, return_type, flags, {},
            library=_LinkedLibrary(target.codegen(), function.__qualname__),
        )  # fmt: skip


@final
class _LinkedLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code that is neither optimised nor made into machine code."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Leave that to those that link it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True
