"""Dispatchers that optimise each kernel, and turn it into machine code, only once.

When a function calls another one, Numba compiles the callee by itself: optimised, in machine code,
with a wrapper for calls from Python. Then it links the callee into the caller and optimises it
again there. Here a callee is linked into the kernel unoptimised, and only functions that Python
calls get a wrapper. Passes that find nothing in kernels are left out: each walks the whole
function, and most then recompute the lifetimes of its variables, a twentieth of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

import llvmlite.binding
from numba.core import codegen as numba_codegen
from numba.core import compiler as numba_compiler
from numba.core import dispatcher as numba_dispatcher
from numba.core import registry, types

from vectorized_ops.numba.compiling.recording import LEAST_SIZE, WantedKernel, active_recorder
from vectorized_ops.numba.compiling.shortcuts import KernelFlags, on_one_stack

compiler: Any = numba_compiler  # Numba has no types for these four.
codegen: Any = numba_codegen
dispatcher: Any = numba_dispatcher
Dispatcher: Any = registry.CPUDispatcher

_NOT_IN_KERNELS: Final = {
    "WithLifting",  # with statements
    "MakeFunctionToJitFunction",  # functions that a function makes
    "InlineInlinables",  # those that ask to be inlined by Numba instead of LLVM
    "InlineOverloads",
    "FindLiterallyCalls",  # calls of numba.literally
    "LiteralUnroll",  # loops over tuples of several types
    "LiteralPropagationSubPipelinePass",
    "NopythonRewrites",  # expressions of whole arrays, which would make new ones
    "IRLegalization",  # del statements
    "DumpParforDiagnostics",
}


@final
class KernelCompiler(compiler.Compiler):  # type: ignore[misc]
    """Compiles a function that needs none of those passes."""

    def define_pipelines(self) -> list[Any]:
        """Return Numba's own pipeline without them."""
        (pipeline,) = super().define_pipelines()
        pipeline.passes = [
            (one, told) for one, told in pipeline.passes if one.__name__ not in _NOT_IN_KERNELS
        ]
        return [pipeline]


@final
class KernelDispatcher(Dispatcher):  # type: ignore[misc]
    """A kernel as Python calls it; other kernels call a `LinkedDispatcher` in its place.

    Numba compiles `as_compiled(function)`, if it is given, in place of the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        as_compiled: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(py_func=function, targetoptions=options)
        self._compiler = _Compiler(self, KernelLibrary, as_compiled)
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
        cache, make = self._cache, partial(self.compile, kinds)
        names, told = cache.names_of(kinds, self.targetctx), (self.py_func.__name__, str(kinds))
        size = LEAST_SIZE + cache.code.size
        return WantedKernel(names, told, size, cache.code.sources, make, cache.shared)


def _does_nothing(*_: Any) -> float:
    return 0.0


@final
class LinkedDispatcher(Dispatcher):  # type: ignore[misc]
    """A kernel in the code of other kernels: compiled for them, and never called by Python."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        as_compiled: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(py_func=function, targetoptions=options)
        self._keys: dict[tuple[Any, ...], object] = {}
        self._compiler = _Compiler(self, _LinkedLibrary, as_compiled)

    def add_overload(self, compiled: Any) -> None:
        """Make the code known to those that call it, by a key that stands for an address."""
        arguments = tuple(compiled.signature.args)
        self.overloads[arguments] = compiled
        key = self._keys[arguments] = object()
        self.targetctx.insert_user_function(key, compiled.fndesc, [compiled.library])

    def get_overload(self, arguments: tuple[Any, ...]) -> object:
        """Return the key of the code for the types of arguments."""
        return self._keys[tuple(arguments)]


class KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code that is optimised as a whole by one pipeline, and kept as machine code alone.

    Numba optimises each function first, and then the whole twice, to remove reference counts:
    kernels have none. LLVM's second and third level change no kernel's speed.
    """

    is_called = True
    """Whether anything is called in it; else it needs no machine code, nor a wrapper for Python."""

    is_vectorised = True
    """Whether LLVM looks for loops and statements that vectors can do."""

    def __init__(self, target: Any, name: str) -> None:
        super().__init__(target, name)
        self.enable_object_caching()

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        vectorise = self.is_vectorised
        passes, builder = self._codegen._module_pass_manager(
            opt=1, loop_vectorize=vectorise, slp_vectorize=vectorise
        )
        passes.run(self._final_module, builder)

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return the machine code, and of what others could link only which functions there are.

        Numba asks a module for their names, where they are loaded.
        """
        functions = (one.name for one in self._final_module.functions if not one.is_declaration)
        named = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in functions)
        names_alone = llvmlite.binding.parse_assembly(named).as_bitcode()
        return self.name, "object", (self._get_compiled_object(), names_alone)


@final
class _LinkedLibrary(KernelLibrary):
    """Code that is neither optimised nor made into machine code: it is only ever linked."""

    is_called = False

    def _optimize_final_module(self) -> None:
        """Leave that to those that link it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@final
class _Compiler(dispatcher._FunctionCompiler):  # type: ignore[misc]
    """Compiles a kernel, or what `as_compiled` makes of it, into a library of this kind."""

    def __init__(
        self,
        kernel: Any,
        library: type[KernelLibrary],
        as_compiled: Callable[[Any], Any] | None,
    ) -> None:
        function, options = kernel.py_func, kernel.targetoptions
        super().__init__(function, kernel.targetdescr, options, {}, KernelCompiler)
        self._library, self._as_compiled = library, as_compiled

    def _get_implementation(self, *_: Any) -> Any:
        return self.py_func if self._as_compiled is None else self._as_compiled(self.py_func)

    def _compile_core(self, arguments: Any, return_type: Any) -> Any:
        flags = KernelFlags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        if not self._library.is_called:
            flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        target, function = self.targetdescr.target_context, self._get_implementation(arguments, {})
        compiled = partial(
            compiler.compile_extra,
            self.targetdescr.typing_context, target, function, arguments, return_type, flags, {},
            library=self._library(target.codegen(), function.__qualname__),
            pipeline_class=KernelCompiler,
        )  # fmt: skip
        return on_one_stack(compiled) if self._library.is_called else compiled()
