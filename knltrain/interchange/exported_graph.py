"""The forward pass of a PyTorch module as ATen operations, read by `torch.export`.

The graph is that of training, not decomposed, with any number of images. So it contains what
`forward` does beside its submodules, too.
"""

from __future__ import annotations

import os
import random
import re
import warnings
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import torch
from torch import fx, nn

from knltrain.errors import NetworkError

IMAGES: Final = 2
"""Images in the exported batch: of one, `torch.export` would make a constant."""

_TORCH: Final = str(Path(torch.__file__).parent)
_NOT_THE_USERS: Final = (
    *(_TORCH, str(Path(__file__).parent), str(Path(warnings.__file__).parent) + os.sep, "<"),
)
"""Where code is that no user has written: PyTorch, this package, and Python itself."""

_IN_ORDER: Final = (None, tuple, list, namedtuple)
"""What a forward may return: a tensor, or several in order, in the terms of PyTorch's trees."""

_FRAME: Final = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in .+\n\s*(?P<code>.*)')


@final
@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One ATen operation of a forward pass: what it computes, from what, and where that stands.

    `arguments` go by the names of ATen's schema, defaults included. Those that are values of the
    graph are `fx.Node`s.
    """

    node: fx.Node
    operator: str
    arguments: Mapping[str, Any]

    @property
    def is_in_place(self) -> bool:
        """Whether it changes its first argument, as `relu_`."""
        return self.operator.endswith("_") and not self.operator.startswith("_")

    @property
    def call(self) -> str:
        """The submodule's call that it belongs to: calls of one submodule differ."""
        return self._innermost[0]

    @property
    def module(self) -> str:
        """Dotted name of the submodule that it belongs to; empty for the module itself."""
        return self._innermost[1]

    @property
    def module_class(self) -> str:
        """Full name of that submodule's class."""
        kind = self._innermost[2]
        return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"

    @property
    def where(self) -> str:
        """The submodule, its class and the line of the user's code, for messages."""
        kind = self.module_class.rpartition(".")[2]
        line = _line_of(self.node.meta.get("stack_trace") or "")
        which = f"module '{self.module}' ({kind})" if self.module else f"the module ({kind})"
        return which + (f", {line}" if line else "")

    @property
    def _innermost(self) -> tuple[str, str, str | type]:
        stack = self.node.meta.get("nn_module_stack")
        call, (module, kind) = list(stack.items())[-1] if stack else ("", ("", ""))
        return call, module, kind


@final
class ExportedGraph:
    """The operations of a module's training, its tensors by name, and the values it returns."""

    def __init__(self, module: nn.Module, example: torch.Tensor) -> None:
        """`example` holds images (N,C,H,W). Raises NetworkError where the module has no graph."""
        program = _exported(module, example[:1].expand(IMAGES, -1, -1, -1).contiguous())
        signature = program.graph_signature
        names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self.trained: Set[str] = frozenset(signature.inputs_to_parameters.values())
        """Names of the tensors that are parameters; the others are buffers."""
        nodes = {node.name: node for node in program.graph.nodes}
        self.tensors: dict[fx.Node, str] = {nodes[key]: name for key, name in names.items()}
        """Parameters and buffers -> their names in the module's state."""
        self.values: Mapping[str, torch.Tensor] = {**program.constants, **program.state_dict}
        """The module's own tensors by those names."""
        self.images = nodes[str(signature.user_inputs[0])]
        changed: dict[fx.Node, fx.Node] = {}
        self.operations: tuple[Operation, ...] = tuple(self._read(nodes.values(), changed))
        """The operations on images, in order.

        A value that was changed in place is read by its new node. Numbers that follow from the
        number of images are left out, and so are the counters of batch normalisations.
        """
        returned = signature.user_outputs
        kind = program.call_spec.out_spec.type
        if kind not in _IN_ORDER:
            raise NetworkError(
                f"{type(module).__name__} returns a {kind.__name__}, whose values have no order: "
                "expected logits (N, classes), alone or first of a tuple"
            )
        if not returned or not all(isinstance(name, str) for name in returned):
            raise NetworkError(
                f"{type(module).__name__} returns {returned}: expected logits (N, classes), alone "
                "or first"
            )
        self.outputs = tuple(_newest(nodes[str(name)], changed) for name in returned)

    def _read(
        self, nodes: Iterable[fx.Node], changed: dict[fx.Node, fx.Node]
    ) -> Iterator[Operation]:
        for node in nodes:
            if node.op != "call_function" or not _makes_tensors(node):
                continue
            operation = _operation(node, changed)
            target = node.args[0] if node.args else None
            if operation.is_in_place and isinstance(target, fx.Node):
                if target in self.tensors:
                    continue
                _check_not_seen(operation, target)
                changed[target] = node
            yield operation


def is_tensor(node: fx.Node) -> bool:
    """Whether a node's value is a tensor, and not a number such as the batch's size."""
    return isinstance(node.meta.get("val"), torch.Tensor)


def shape_of(node: fx.Node) -> tuple[int, ...] | None:
    """Shape of a value for one image, in PyTorch's order; None if it is no batch of anything."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.dim():
        return None
    batch, *rest = value.shape
    if isinstance(batch, int) or not all(isinstance(size, int) for size in rest):
        return None
    return tuple(rest)


def _exported(module: nn.Module, images: torch.Tensor) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=2)
    drawn = random.getstate(), _numpy_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(
                module, (images,), dynamic_shapes=({0: batch},), strict=False
            )
    except Exception as error:
        said = str(error).strip() or type(error).__name__
        raise NetworkError(
            f"{type(module).__name__} has no graph of its forward pass for any number of images: "
            f"{said.splitlines()[0]}; expected a forward of one tensor of such images, whose steps "
            f"do not depend on the values or the number of images{last_line(error)}"
        ) from error
    if drawn != (random.getstate(), _numpy_state()):
        raise NetworkError(
            f"the forward of {type(module).__name__} draws random numbers of Python or NumPy, of "
            "which a network would keep those drawn now: expected random steps in "
            "torch.nn.Dropout, torchvision's StochasticDepth or timm's DropPath only"
        )
    return program


def _numpy_state() -> tuple[bytes, int]:
    """That of NumPy's own generator, from which `numpy.random.rand` and its kin draw."""
    _, keys, place, *_ = np.random.get_state()  # noqa: NPY002
    return np.asarray(keys).tobytes(), int(place)


def is_users(file: str) -> bool:
    """Whether a file of source is the user's: none of PyTorch, this package, and Python itself."""
    return not file.startswith(_NOT_THE_USERS)


def last_line(error: BaseException) -> str:
    """Where the user's code was when an error came, if it was there."""
    where, line = "", error.__traceback__
    while line is not None:
        code = line.tb_frame.f_code
        if is_users(code.co_filename):
            where = f"{Path(code.co_filename).name}:{line.tb_lineno}, in {code.co_name}"
        line = line.tb_next
    return f" ({where})" if where else ""


def _makes_tensors(node: fx.Node) -> bool:
    return is_tensor(node) or isinstance(node.meta.get("val"), list | tuple)


def _operation(node: fx.Node, changed: Mapping[fx.Node, fx.Node]) -> Operation:
    schema = getattr(node.target, "_schema", None)
    if schema is None:  # Python's own, as getitem, and operators of higher order
        given = {str(number): value for number, value in enumerate(node.args)}
        name = str(getattr(node.target, "__name__", node.target))
        return Operation(node, name, _read(given, changed))
    arguments = {
        each.name: node.args[place]
        if place < len(node.args)
        else node.kwargs.get(each.name, each.default_value)
        for place, each in enumerate(schema.arguments)
    }
    return Operation(node, schema.name.partition("::")[2], _read(arguments, changed))


def _read(arguments: Any, changed: Mapping[fx.Node, fx.Node]) -> Any:
    return fx.node.map_arg(arguments, lambda node: _newest(node, changed))


def _newest(node: fx.Node, changed: Mapping[fx.Node, fx.Node]) -> fx.Node:
    while node in changed:
        node = changed[node]
    return node


def _check_not_seen(operation: Operation, target: fx.Node) -> None:
    """Refuse a change in place of what is seen elsewhere, too, as by another view of it."""
    whole = target
    while _is_view(whole) and isinstance(whole.args[0], fx.Node):
        whole = whole.args[0]
    seeing, views = [whole], {whole}
    while seeing:
        found = [user for user in seeing.pop().users if _is_view(user) and user not in views]
        views.update(found)
        seeing += found
    for view in views - {target, operation.node}:
        if any(user > operation.node and not _is_view(user) for user in view.users):
            raise NetworkError(
                f"{operation.where}: {operation.operator} changes in place what is also seen as "
                f"'{view}' afterwards: expected a value of its own; write "
                f"{operation.operator[:-1]} instead"
            )


def _is_view(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(
        each.alias_info is not None and not each.alias_info.is_write for each in schema.arguments
    )


def _line_of(trace: str) -> str:
    """The last line of a trace that is not PyTorch's own, as "model.py:12: x = self.conv(x)"."""
    found = [each for each in _FRAME.finditer(trace) if not each["file"].startswith(_TORCH)]
    if not found:
        return ""
    return f"{Path(found[-1]['file']).name}:{found[-1]['line']}: {found[-1]['code'].strip()}"
