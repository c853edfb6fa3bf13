"""Register tiles as functions in machine code, called by their addresses.

A tile is compiled for constants, its numbers of rows and columns. Inlined, every combination would
need a kernel of its own, which Numba types, lowers and optimises. As a function a tile compiles in
a tenth of a second, and one kernel serves all constants.
"""

from __future__ import annotations

import ctypes
import inspect
import pickle
from functools import cache, partial
from typing import Any, Final, NamedTuple, final

import numpy as np
from llvmlite import ir
from numba.core import types as numba_types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.cache import (
    EntryNames,
    SharedKernels,
    entry_names,
    shared_kernels,
)
from vectorized_ops.numba.compiling.compiler import CACHE_FOLDER, SETTINGS
from vectorized_ops.numba.compiling.fingerprint import CompiledCode, compiled_code
from vectorized_ops.numba.compiling.kernel_dispatcher import KernelLibrary
from vectorized_ops.numba.compiling.recording import LEAST_SIZE, WantedKernel, active_recorder

types: Any = numba_types
"""Numba has no types for the making of its own."""

NO_TILE: Final = 0
"""Stands for the address of a tile that is never called."""

_DOES_NOTHING: Final = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0
"""The address of what is only recorded: kernels that are loaded call it, with any arguments."""


@cache
def table_of(*addresses: int) -> AnyArray:
    """Return addresses as an array (n,) of int64, the same one for the same addresses.

    So calls of kernels with equal tables are equal, see `replay`. It must not be written to.
    """
    return np.array(addresses, np.int64)


class Variant(NamedTuple):
    """The constants of a function of a tile, and the names of its arrays of bfloat16."""

    constants: tuple[int, ...]
    bfloat16: tuple[str, ...]

    @property
    def told(self) -> str:
        """Both, as text."""
        return ", ".join(map(str, (self.constants, *self.bfloat16)))


@final
class TileFunction:
    """Functions that do what a `tile` does when a kernel calls it, one for each set of constants.

    The constants are those parameters of the tile of which it reads `literal_value`. `elements` are
    the types in those arrays that it is given whose elements are no float32.
    """

    def __init__(self, tile: Any, constants: tuple[str, ...], **elements: Any) -> None:
        self._define = tile._defn
        self._constants, self._elements = constants, elements
        self._code: CompiledCode | None = None
        self._addresses: dict[Variant, int] = {}
        self._libraries: list[Any] = []  # they own the machine code

    def address(self, *constants: int, bfloat16: tuple[str, ...] = ()) -> int:
        """Return the address of the function for these values of the constants, for `call_tile`.

        Arrays named in `bfloat16` are of that type.
        """
        wanted = Variant(constants, bfloat16)
        if wanted not in self._addresses:
            recorder = active_recorder()
            if recorder is not None and not recorder.has_tiles:
                recorder.note((self, wanted), partial(self._wanted, wanted))
                return _DOES_NOTHING
            self._addresses[wanted] = self._made(wanted)
        return self._addresses[wanted]

    def _wanted(self, variant: Variant) -> WantedKernel:
        names, make = self._names(variant), partial(self._made, variant)
        told = self._define.__name__, variant.told
        sources = self._compiled().sources | _emitted_code().sources
        return WantedKernel(names, told, LEAST_SIZE, sources, make, _shared())

    def _names(self, variant: Variant) -> EntryNames:
        kinds = sorted((name, str(kind)) for name, kind in self._kinds(variant).items())
        codes = f"{self._compiled().fingerprint} {_emitted_code().fingerprint} {kinds}"
        made_from = codes, self._constants, variant.constants
        return entry_names(self._define.__name__, made_from, cpu_target.target_context.codegen())

    def _kinds(self, variant: Variant) -> dict[str, Any]:
        return self._elements | dict.fromkeys(variant.bfloat16, types.uint16)

    def _compiled(self) -> CompiledCode:
        if self._code is None:
            self._code = compiled_code(self._define)
        return self._code

    @global_compiler_lock  # type: ignore[untyped-decorator]
    def _made(self, variant: Variant) -> int:
        target = cpu_target.target_context
        codegen = target.codegen()
        kernel, names, shared = self._define.__name__, self._names(variant), _shared()
        name = names.packaged  # of the function: what comes from a package has it, too

        def rebuild(content: bytes) -> Any:
            return codegen.unserialize_library(pickle.loads(content))

        library = shared.obtain(names, (kernel, variant.told), rebuild)
        if library is None:
            try:
                target.refresh()
                library = _TileLibrary(codegen, name)
                given = dict(zip(self._constants, variant.constants, strict=True))
                module = library.create_ir_module(name)
                emitted(self._define, given, self._kinds(variant), target, module, name)
                library.add_ir_module(module)
                library.finalize()
                content = pickle.dumps(library.serialize_using_object_code())
            except BaseException:
                shared.give_up()
                raise
            shared.keep(content)
        self._libraries.append(library)
        return int(library.get_pointer_to_function(name))


@final
class _TileLibrary(KernelLibrary):
    """Vectors that are written as they are to be."""

    is_vectorised = False


def _shared() -> SharedKernels:
    return shared_kernels(CACHE_FOLDER, bool(SETTINGS.CACHE_DIR))


def emitted(
    define: Any,
    constants: dict[str, int],
    elements: dict[str, Any],
    target: Any,
    module: ir.Module,
    name: str,
) -> ir.Function:
    """Add to a module the function `name` with the code of a tile for its `constants`.

    It is given all other arguments of the tile in their order, of arrays the addresses of their
    data. `elements` are as in `TileFunction`.
    """
    _, *parameters = inspect.signature(define).parameters
    given = [
        types.literal(constants[one])
        if one in constants
        else types.CPointer(elements.get(one, types.float32))
        for one in parameters
    ]
    signature, generate = define(None, *given)
    passed = [target.get_value_type(it) for it in signature.args if not _is_constant(it)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), passed), name)
    builder, values = ir.IRBuilder(function.append_basic_block()), iter(function.args)
    arguments = [None if _is_constant(it) else next(values) for it in signature.args]
    generate(target, builder, signature, arguments)
    builder.ret_void()
    return function


@cache
def _emitted_code() -> CompiledCode:
    return compiled_code(emitted)


def _is_constant(kind: Any) -> bool:
    return isinstance(kind, types.Literal)


@intrinsic
def call_tile(typingctx: Any, address: Any, *arguments: Any) -> Any:  # noqa: ARG001
    """Call the function of a tile at an address, with all arguments but its constants."""
    signature = types.void(types.int64, types.StarArgTuple(arguments))

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        passed = []
        for number, kind in enumerate(signature.args[1]):
            value = builder.extract_value(values[1], number)
            if isinstance(kind, types.Array):
                value = context.make_array(kind)(context, builder, value).data
            elif isinstance(kind, types.Integer):
                value = context.cast(builder, value, kind, types.int64)
            passed.append(value)
        shape = ir.FunctionType(ir.VoidType(), [value.type for value in passed])
        builder.call(builder.inttoptr(values[0], shape.as_pointer()), passed)
        return context.get_dummy_value()

    return signature, generate
