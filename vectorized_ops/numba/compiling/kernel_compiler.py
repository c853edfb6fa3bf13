"""Numba's compiler without the passes that find nothing in kernels.

Each of these passes walks the whole function, and most then recompute the lifetimes of its
variables: they took a twentieth of the time.
"""

from __future__ import annotations

from typing import Any, Final, final

from numba.core import compiler as numba_compiler

compiler: Any = numba_compiler  # Numba has no types for its own.

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
