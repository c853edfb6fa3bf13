"""What an x86-64 processor tells of itself by CPUID, through LLVM: Linux names flags alone."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import llvmlite.binding
from llvmlite import ir

_NAME = "knltrain_cpuid"
_REGISTERS = "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"


class Registers(NamedTuple):
    """The answer: 32 bits of each register."""

    eax: int
    ebx: int
    ecx: int
    edx: int


def cpuid(leaf: int, part: int = 0) -> Registers:
    """Ask for a leaf and a part of it; on x86-64 only. Zeros for leaves that there are not."""
    if leaf > 0 and leaf > cpuid(0).eax:
        return Registers(0, 0, 0, 0)
    # MCJIT frees the code with the engine, so that this keeps it until the answer is there.
    engine = _compiled()
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(
        engine.get_function_address(_NAME)
    )
    found = (ctypes.c_uint32 * 4)()
    ask(leaf, part, ctypes.addressof(found))
    return Registers(*found)


def _compiled() -> Any:
    word = ir.IntType(32)
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [word, word, word.as_pointer()])
    function = ir.Function(module, kind, _NAME)
    builder = ir.IRBuilder(function.append_basic_block())
    leaf, part, out = function.args
    answer = ir.LiteralStructType([word] * 4)
    asking = ir.FunctionType(answer, [word, word])
    found = builder.asm(asking, "cpuid", _REGISTERS, [leaf, part], side_effect=True)
    for number in range(4):
        place = builder.gep(out, [word(number)])
        builder.store(builder.extract_value(found, number), place)
    builder.ret_void()
    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    llvmlite.binding.initialize_native_asmparser()
    machine = llvmlite.binding.Target.from_default_triple().create_target_machine()
    engine = llvmlite.binding.create_mcjit_compiler(
        llvmlite.binding.parse_assembly(str(module)), machine
    )
    engine.finalize_object()
    return engine
