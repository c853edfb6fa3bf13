"""Tensors as memory: which of them can be exchanged, and errors for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp

from knltrain.communication.collectives.operations import Memory
from knltrain.errors import CollectiveError
from vectorized_ops.reference.reduction import AND, MAX, MEAN, MIN, OR, PRODUCT, SUM, XOR

_KINDS = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.bool: "uint8",
}
_PARTS = {torch.complex64: "float32", torch.complex128: "float64"}
_NAMES = (
    "SUM",
    "AVG",
    "PRODUCT",
    "MIN",
    "MAX",
    "BAND",
    "BOR",
    "BXOR",
)
_OPERATIONS = {
    int(getattr(ReduceOp, name)): number
    for name, number in zip(_NAMES, (SUM, MEAN, PRODUCT, MIN, MAX, AND, OR, XOR), strict=True)
}
_OF_TRUTH: dict[int | None, int] = {
    **dict.fromkeys((SUM, OR, MAX), MAX),
    **dict.fromkeys((PRODUCT, AND, MIN), MIN),
    XOR: XOR,
}
"""Operations on bool as those on the bytes 0 and 1: a sum is true if any is."""


def check_plain(tensor: torch.Tensor) -> None:
    """Raise CollectiveError unless a tensor is dense and on the CPU."""
    if not tensor.is_cpu or tensor.layout is not torch.strided:
        raise CollectiveError(_refusal(tensor))


def address_of(tensor: torch.Tensor) -> int:
    """Return where a tensor lies that is dense, contiguous and on the CPU; CollectiveError if not.

    `Staging` makes any dense one such.
    """
    if not tensor.is_cpu or tensor.layout is not torch.strided or not tensor.is_contiguous():
        raise CollectiveError(_refusal(tensor))
    return tensor.data_ptr()


def memory_of(tensor: torch.Tensor) -> Memory:
    """Return a tensor's address and bytes; CollectiveError as `address_of`."""
    return address_of(tensor), tensor.numel() * tensor.element_size()


def memories_of(tensors: Sequence[torch.Tensor]) -> list[Memory]:
    """Return address and bytes of each."""
    return [memory_of(tensor) for tensor in tensors]


def parts_of(tensor: torch.Tensor, parts: int) -> list[Memory]:
    """Return the equal parts of a tensor's memory; CollectiveError if it has none."""
    address, bytes_ = memory_of(tensor)
    if tensor.numel() % parts:
        raise CollectiveError(
            f"a tensor of {tensor.numel()} elements cannot be divided among {parts} ranks: "
            "expected a multiple"
        )
    return [(address + number * (bytes_ // parts), bytes_ // parts) for number in range(parts)]


def split_memory(tensor: torch.Tensor, sizes: Sequence[int], parts: int) -> list[Memory]:
    """Return the parts of a tensor that have ``sizes`` (parts,) rows each, or equal parts."""
    if not sizes:
        return parts_of(tensor, parts)
    rows = tensor.shape[0] if tensor.dim() else 1
    if len(sizes) != parts or sum(sizes) != rows:
        raise CollectiveError(
            f"split sizes {list(sizes)}: expected {parts} that add up to {rows}, the tensor's rows"
        )
    address, bytes_ = memory_of(tensor)
    row_bytes = bytes_ // max(rows, 1)
    begins = [sum(sizes[:number]) for number in range(parts)]
    return [
        (address + begin * row_bytes, size * row_bytes)
        for begin, size in zip(begins, sizes, strict=True)
    ]


def count_and_kind(tensor: torch.Tensor) -> tuple[int, str]:
    """Return how many numbers of which kind a tensor has; CollectiveError for other dtypes."""
    kind = _KINDS.get(tensor.dtype)
    if kind is not None:
        return tensor.numel(), kind
    if tensor.dtype in _PARTS:
        return 2 * tensor.numel(), _PARTS[tensor.dtype]
    known = ", ".join(str(dtype).removeprefix("torch.") for dtype in (*_KINDS, *_PARTS))
    raise CollectiveError(f"{tensor.dtype} cannot be reduced: expected one of {known}")


def operation_for(reduce_op: Any, tensor: torch.Tensor) -> int:
    """Return the number of a ReduceOp for a tensor's dtype; CollectiveError if it has none."""
    operation = _OPERATIONS.get(int(getattr(reduce_op, "op", reduce_op)))
    dtype = tensor.dtype
    if dtype is torch.bool:
        operation = _OF_TRUTH.get(operation)
    elif operation != SUM and operation not in _allowed(dtype):
        operation = None
    if operation is None:
        raise CollectiveError(
            f"there is no {_name(reduce_op)} of {dtype}: expected SUM, PRODUCT, MIN or MAX, AVG "
            "of floating point, or BAND, BOR, BXOR of integers"
        )
    return operation


def _allowed(dtype: torch.dtype) -> tuple[int, ...]:
    if dtype.is_complex:
        return SUM, MEAN
    if dtype.is_floating_point:
        return SUM, MEAN, PRODUCT, MIN, MAX
    return SUM, PRODUCT, MIN, MAX, AND, OR, XOR


def _name(reduce_op: Any) -> str:
    return str(getattr(reduce_op, "op", reduce_op)).rpartition(".")[2]


def same_kind(tensors: Sequence[torch.Tensor]) -> None:
    """Raise CollectiveError unless all tensors have the same dtype and number of elements."""
    first = tensors[0]
    for tensor in tensors[1:]:
        if tensor.dtype != first.dtype or tensor.numel() != first.numel():
            raise CollectiveError(
                f"got tensors of {first.numel()} {first.dtype} and {tensor.numel()} "
                f"{tensor.dtype}: expected the same number of elements and dtype"
            )


def check_bytes(whole: torch.Tensor, part: Memory, single: torch.Tensor, memory: Memory) -> None:
    """Raise CollectiveError unless each rank's part of one tensor is as large as the other one."""
    if whole.dtype != single.dtype or part[1] != memory[1]:
        raise CollectiveError(
            f"got tensors of {whole.numel()} {whole.dtype} and {single.numel()} {single.dtype}: "
            "expected the one to have P times the elements of the other, and the same dtype"
        )


def _refusal(tensor: torch.Tensor) -> str:
    if not tensor.is_cpu:
        return (
            f"got a tensor on {tensor.device} in a group for those on the CPU: move it there, or "
            'give it a group with another backend, as in new_group(backend="nccl")'
        )
    if tensor.layout is not torch.strided:
        return f"got a tensor with layout {tensor.layout}: expected a dense one (to_dense())"
    return (
        f"got a tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()}: expected a "
        "contiguous one (contiguous())"
    )
