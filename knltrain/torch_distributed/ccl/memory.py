"""Memory by its address as tensors, and concatenation of pieces of it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from knltrain.communication.collectives.operations import Memory
from vectorized_ops.reference.reduction import STORED


def bytes_at(memory: Memory) -> Tensor:
    """Return memory as a tensor of bytes."""
    address, bytes_ = memory
    if not bytes_:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.frombuffer((ctypes.c_char * bytes_).from_address(address), dtype=torch.uint8)


def tensor_at(address: int, count: int, kind: str) -> Tensor:
    """Return ``count`` elements of memory as a tensor."""
    return bytes_at((address, count * STORED[kind].itemsize)).view(getattr(torch, kind))


def in_a_row(memories: Sequence[Memory]) -> tuple[int, Tensor | None]:
    """Return the address of contiguous pieces; if they are not, that of a copy, and the copy."""
    if _are_in_a_row(memories):
        return memories[0][0], None
    copied = torch.cat([bytes_at(memory) for memory in memories])
    return copied.data_ptr(), copied


def row_for(memories: Sequence[Memory]) -> tuple[int, Tensor | None]:
    """Return an address to write all pieces at, and the buffer there if they are not contiguous."""
    if _are_in_a_row(memories):
        return memories[0][0], None
    size = sum(bytes_ for _, bytes_ in memories)
    whole = torch.empty(size, dtype=torch.uint8, device="cpu")
    return whole.data_ptr(), whole


def take_apart(whole: Tensor | None, memories: Sequence[Memory]) -> None:
    """Copy the contents of the buffer of `row_for` to the pieces."""
    if whole is not None:
        sizes = [bytes_ for _, bytes_ in memories]
        for memory, part in zip(memories, torch.split(whole, sizes), strict=True):
            bytes_at(memory).copy_(part)


def _are_in_a_row(memories: Sequence[Memory]) -> bool:
    ends = [address + bytes_ for address, bytes_ in memories]
    return all(end == begin for end, (begin, _) in zip(ends, memories[1:], strict=False))
