"""Every form of call that torch's own groups take, read from the signatures of their methods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

METHODS = (
    *("_allgather_base", "all_gather_single", "all_gather_single_coalesced", "allgather"),
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "gather", "scatter"),
    *("all_to_all_single", "alltoall", "alltoall_base", "broadcast", "barrier"),
    *("allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "_reduce_scatter_base"),
    *("reduce_scatter_single", "reduce_scatter_single_coalesced"),
    *("reduce_scatter_tensor_coalesced", "send", "recv", "recv_anysource"),
)
ANY_SOURCE_TAG = 7


@dataclass(frozen=True)
class Form:
    """One overload: the names, kinds and which may be left out of its arguments."""

    method: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    required: int

    def __str__(self) -> str:
        return f"{self.method}({', '.join(self.names)})"


def forms() -> Iterator[Form]:
    # In torch 2.8 gloo takes no short form of gather and scatter: others than the root cannot say
    # in them that they give or want nothing. In that of reduce_scatter it sums whatever is asked.
    wrong = {"gather": "root", "scatter": "root", "reduce_scatter": "op"}
    is_oldest = torch.__version__.startswith("2.8.")
    for method in METHODS:
        left_out = [(wrong[method],)] if is_oldest and method in wrong else []
        said = getattr(dist.ProcessGroup, method, None)
        for line in ((said and said.__doc__) or "").splitlines():
            found = re.match(
                rf"(?:\d+\. )?{method}\(self: [\w.]+, (.*)\) -> c10d::Work", line.strip()
            )
            if found and (form := _form(method, found[1])).names[-1:] not in left_out:
                yield form


def _form(method: str, text: str) -> Form:
    text = re.sub(r"<[^>]*>", "default", text)
    arguments = re.findall(r"(\w+): ((?:[^,\[]|\[[^\[\]]*(?:\[[^\]]*\])*[^\[\]]*\])+)", text)
    names = tuple(name for name, _ in arguments)
    kinds = tuple(kind.partition(" = ")[0].strip() for _, kind in arguments)
    return Form(method, names, kinds, sum(" = " not in kind for _, kind in arguments))


def found_by(group: Any, form: Form, is_named: bool, count: int) -> list[torch.Tensor]:
    """What a call leaves in its tensors: ``count`` arguments of a form, perhaps by name."""
    rank, ranks = group.rank(), group.size()
    given = [
        _argument(form, name, kind, rank, ranks)
        for name, kind in zip(form.names, form.kinds, strict=True)
    ][:count]
    method = getattr(group, form.method)
    if (form.method == "send" and rank) or ("recv" in form.method and not rank):
        other = group.send if rank else None  # it takes two
        if other is not None:
            group.recv([torch.zeros(2)], 0, ANY_SOURCE_TAG).wait()
        else:
            group.send([torch.ones(2)], 1, ANY_SOURCE_TAG).wait()
        return []
    if is_named and not form.names[0].startswith("arg"):
        work = method(**dict(zip(form.names, given, strict=False)))
    else:
        work = method(*given)
    assert work.wait()
    return _tensors(given)


def _tensors(given: Any) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [given]
    if isinstance(given, list):
        return [tensor for each in given for tensor in _tensors(each)]
    return []


def _argument(form: Form, name: str, kind: str, rank: int, ranks: int) -> Any:
    if "torch.Tensor" in kind:
        return _given_tensors(form.method, name, kind.count("["), rank, ranks)
    if "Options" in kind:
        return getattr(c10d, kind.rpartition(".")[2])()
    if "ReduceOp" in kind:
        return dist.ReduceOp.MAX
    if "timedelta" in kind:
        return timedelta(seconds=60)
    if "sizes" in name:
        return []
    if name in ("tag", "arg1"):
        return ANY_SOURCE_TAG
    return 1 if name == "dstRank" else 0  # the root, and the source


def _given_tensors(method: str, name: str, depth: int, rank: int, ranks: int) -> Any:
    """Tensors in so many lists, of the numbers that a method needs them in."""
    is_output = "output" in name
    if method == "allgather_coalesced" and is_output:  # by rank
        return [[_tensor(rank, 2)] for _ in range(ranks)]
    of_all = (
        method == "alltoall"
        or (method in ("allgather", "gather") and is_output)
        or (method in ("scatter", "reduce_scatter") and not is_output)
    )
    if of_all:
        has_some = rank == 0 or method not in ("gather", "scatter")
        tensors = [_tensor(rank + number, 2) for number in range(ranks)]
        return ([tensors] if depth == 2 else tensors) if has_some else []
    is_whole = "all_to_all" in method or "alltoall" in method
    is_whole = is_whole or ("gather" in method) == is_output
    is_single = "single" in method or "base" in method or "tensor_coalesced" in method
    tensor = _tensor(rank, 2 * ranks if is_single and is_whole else 2)
    return tensor if depth == 0 else [tensor]


def _tensor(rank: int, size: int) -> torch.Tensor:
    return torch.arange(size, dtype=torch.float32) + 10 * rank


def refused(group: Any, gloo: Any) -> list[str]:
    """The calls that gloo takes and a group does not, or that give something else, with why."""
    wrong = []
    for form in forms():
        for is_named in (False, True):
            for count in range(form.required, len(form.names) + 1):
                why = _difference(group, gloo, form, is_named, count)
                if why:
                    wrong.append(f"{form} with {count}, named {is_named}: {why}")
    return wrong


def _difference(group: Any, gloo: Any, form: Form, is_named: bool, count: int) -> str:
    try:
        expected = found_by(gloo, form, is_named, count)
    except RuntimeError as error:  # gloo has no such operation at all
        if "support" not in str(error):
            return f"gloo: {error}"
        expected = None
    try:
        found = found_by(group, form, is_named, count)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is wrong)
        return f"{type(error).__name__}: {error}"
    if expected is None:
        return ""
    if form.method == "reduce" and group.rank():  # gloo leaves something in between there
        return ""
    return "" if all(map(torch.equal, found, expected)) else f"{found} instead of {expected}"
