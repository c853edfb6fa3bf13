"""Compiles loops over `numba.prange` once.

Numba's own parallel transformation compiles the body of a loop four times: by itself, in the
wrapper of a generalised ufunc, in another one that spreads it over threads, and in the function.
Here the body becomes one function, in the same module as the function with the loop, which passes
it to Numba's threads. Nothing is fused, and nothing else is made parallel.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable
from functools import partial
from types import FunctionType
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils as numba_cgutils
from numba.core import types
from numba.extending import intrinsic
from numba.np.ufunc import parallel as numba_parallel

from vectorized_ops.numba.compiling.kernel_dispatcher import KernelCompiler
from vectorized_ops.numba.compiling.shortcuts import KernelFlags

cgutils: Any = numba_cgutils
launch_threads: Any = numba_parallel._launch_threads  # Numba has no types for these two.

_BYTES: Final = ir.IntType(8).as_pointer()
_INTEGER: Final = ir.IntType(64)
_INTEGERS: Final = _INTEGER.as_pointer()
_MAKE_RUNNER: Final = "_make_runner"


def with_parallel_loops(function: FunctionType) -> FunctionType:
    """Return the function with a call for each loop over `numba.prange`, to be compiled by Numba.

    Such loops are statements of the function itself, not of others in it, over one or two bounds.
    What the body reads of the function is passed to it as it is before the loop; it may change
    arrays, but no variables that the function has outside of it. Raises TypeError for others.
    """
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list, definition.returns = [], None
    for argument in definition.args.args:
        argument.annotation = None
    outer = {argument.arg for argument in definition.args.args}
    outer.update(_stored(one for one in definition.body if not _is_parallel(one)))
    bodies: list[ast.stmt] = []
    for number, statement in enumerate(definition.body):
        if _is_parallel(statement):
            body, runner, call = _apart(function, number, statement, outer)
            bodies += [body, runner]
            definition.body[number] = call
    made = [*bodies, definition]
    if not bodies or any(_is_prange(node) for one in made for node in ast.walk(one)):
        raise TypeError(
            f"{function.__qualname__}: expected loops over numba.prange as statements of the "
            "function itself"
        )
    return _defined_again(function, made)


def _apart(
    function: FunctionType, number: int, loop: Any, outer: set[str]
) -> tuple[ast.stmt, ast.stmt, ast.stmt]:
    """The body of a loop as a function, what runs it, and the call that stands for the loop."""
    bounds = loop.iter.args
    if not isinstance(loop.target, ast.Name) or len(bounds) > 2 or loop.orelse:
        raise TypeError(f"{function.__qualname__}: expected `for name in numba.prange(stop)`")
    if changed := outer & {loop.target.id, *_stored(loop.body)}:
        raise TypeError(
            f"{function.__qualname__}: a loop over numba.prange changes "
            f"{', '.join(sorted(changed))}, which the function has outside of it: expected a name "
            "of the loop's own"
        )
    nodes = (node for one in loop.body for node in ast.walk(one))
    read = sorted(outer & {node.id for node in nodes if isinstance(node, ast.Name)})
    name, runner = f"{function.__name__}_loop{number}", f"_run_{number}"
    body: Any = _parsed(f"def {name}({', '.join((loop.target.id, *read))}): pass")
    body.body = loop.body
    call: Any = _parsed(f"{runner}(0, 0, ({''.join(f'{one}, ' for one in read)}))")
    call.value.args[2 - len(bounds) : 2] = bounds
    return body, _parsed(f"{runner} = {_MAKE_RUNNER}({name})"), call


def _defined_again(function: FunctionType, statements: list[ast.stmt]) -> FunctionType:
    """What the last of the statements defines, with the globals and the closure of `function`."""
    closure = function.__closure__ or ()
    cells = dict(zip(function.__code__.co_freevars, closure, strict=True))
    factory: Any = _parsed(f"def make({', '.join((_MAKE_RUNNER, *cells))}): pass")
    factory.body = [*statements, ast.Return(ast.Name(function.__name__, ast.Load()))]
    module = ast.fix_missing_locations(ast.Module([factory], []))
    ast.increment_lineno(module, function.__code__.co_firstlineno - 1)
    found: dict[str, Any] = {}
    exec(compile(module, function.__code__.co_filename, "exec"), function.__globals__, found)
    make_runner = partial(runner_of, prefix=function.__qualname__)
    again = found["make"](make_runner, *(cell.cell_contents for cell in cells.values()))
    assert isinstance(again, FunctionType)
    again.__qualname__, again.__module__ = function.__qualname__, function.__module__
    return again


def _parsed(statement: str) -> ast.stmt:
    return ast.parse(statement).body[0]


def _is_parallel(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.For) and _is_prange(statement.iter)


def _is_prange(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "numba.prange"


def _stored(statements: Iterable[ast.stmt]) -> set[str]:
    nodes = (node for one in statements for node in ast.walk(one))
    return {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def runner_of(body: FunctionType, prefix: str) -> Any:
    """Return an intrinsic `run(start, stop, arguments)` that calls `body(index, *arguments)`.

    For each index from `start` to before `stop`, spread over the threads that Numba has been
    allowed: those calls run at once, and must not raise. `prefix` begins the name of its code.
    """
    body.__qualname__ = f"{prefix}.{body.__name__}"

    @intrinsic
    def run(_typing: Any, start: Any, stop: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            launch_threads()
            context.active_code_library._reload_init.add(launch_threads)
            first, last, packed = (
                context.cast(builder, values[i], kind, types.int64) if i < 2 else values[i]
                for i, kind in enumerate(signature.args)
            )
            kinds = [context.get_value_type(kind) for kind in arguments.types]
            record = cgutils.alloca_once(builder, ir.LiteralStructType([_INTEGER, *kinds]))
            held = [first, *(builder.extract_value(packed, i) for i in range(len(kinds)))]
            for i, value in enumerate(held):
                builder.store(value, cgutils.gep_inbounds(builder, record, 0, i))
            task = _task(context, builder.module, body, arguments.types, record.type)
            _spread(builder, task, record, builder.sub(last, first))
            return context.get_dummy_value()

        return types.void(start, stop, arguments), generate

    return run


def _task(context: Any, module: Any, body: FunctionType, kinds: Any, record: Any) -> ir.Function:
    """A function for Numba's threads, as of a ufunc: it calls the body for some indices.

    Its arguments are the number of the first one, as an address, and what all calls share.
    """
    inner = (types.int64, *kinds)
    flags = KernelFlags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    library, kind = context.active_code_library, types.none
    compiled = KernelCompiler(
        context.typing_context, context, library, inner, kind, flags, {}
    ).compile_extra(body)
    described = compiled.fndesc
    shape = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), _INTEGERS, _INTEGERS, _BYTES])
    task = ir.Function(module, shape, f"{described.llvm_func_name}.task")
    task.linkage = "internal"
    builder = ir.IRBuilder(task.append_basic_block())
    addresses, counts, _, _ = task.args
    number = builder.ptrtoint(builder.load(addresses), _INTEGER)
    shared = builder.bitcast(builder.load(builder.gep(addresses, [_INTEGER(1)])), record)
    first, *values = (
        builder.load(cgutils.gep_inbounds(builder, shared, 0, i))
        for i in range(len(record.pointee.elements))
    )
    callee = context.declare_function(module, described)
    begin = builder.add(first, number)
    with cgutils.for_range(builder, builder.load(counts)) as loop:
        index = builder.add(begin, loop.index)
        context.call_conv.call_function(builder, callee, described.restype, inner, [index, *values])
    builder.ret_void()
    return task


def _spread(builder: Any, task: ir.Function, record: Any, count: Any) -> None:
    """Call Numba's `parallel_for`: the number goes up by one from call to call, the rest stays."""
    addresses = cgutils.alloca_once(builder, _BYTES, size=_INTEGER(2))
    steps = cgutils.alloca_once(builder, _INTEGER, size=_INTEGER(2))
    counts = cgutils.alloca_once(builder, _INTEGER)
    for i, (address, step) in enumerate(((_BYTES(None), 1), (record, 0))):
        place = [_INTEGER(i)]
        builder.store(builder.bitcast(address, _BYTES), builder.gep(addresses, place))
        builder.store(_INTEGER(step), builder.gep(steps, place))
    builder.store(count, counts)
    module = builder.module
    threads = cgutils.get_or_insert_function(
        module, ir.FunctionType(_INTEGER, []), "get_num_threads"
    )
    parallel_for = cgutils.get_or_insert_function(
        module, ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_INTEGER] * 3), "numba_parallel_for"
    )
    pointers = (builder.bitcast(it, _BYTES) for it in (task, addresses, counts, steps))
    numbers = (_INTEGER(0), _INTEGER(2), builder.call(threads, []))
    with builder.if_then(builder.icmp_signed(">", count, _INTEGER(0))):
        builder.call(parallel_for, [*pointers, _BYTES(None), *numbers])
