"""Contiguous copies of the tensors of one operation that are not contiguous themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.tensors import check_plain

_OVERLAPS = 1


@final
class Staging:
    """Contiguous copies in place of the non-contiguous tensors of an operation.

    Ranks may give tensors of the same shape in different memory orders (channels_last), which match
    elementwise but not bytewise. The copies are filled when the operation begins, as earlier
    operations may write to the tensors.
    """

    def __init__(self) -> None:
        self._filled: list[tuple[Tensor, Tensor]] = []
        self._given_back: list[tuple[Tensor, Tensor]] = []

    def read(self, tensor: Tensor) -> Tensor:
        """Return a tensor to be read, or its copy; CollectiveError if it cannot be copied."""
        check_plain(tensor)
        if tensor.is_contiguous():
            return tensor
        copy = torch.empty_like(tensor, memory_format=torch.contiguous_format)
        self._filled.append((tensor, copy))
        return copy

    def written(self, tensor: Tensor) -> Tensor:
        """Return a tensor to be read and written, or its copy."""
        copy = self.read(tensor)
        if copy is not tensor:
            if torch._debug_has_internal_overlap(tensor) == _OVERLAPS:
                raise CollectiveError(
                    f"got a tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()} "
                    "to be written: expected one with memory of its own for each element (clone())"
                )
            self._given_back.append((tensor, copy))
        return copy

    def all_read(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return each as `read` does."""
        return [self.read(tensor) for tensor in tensors]

    def all_written(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return each as `written` does."""
        return [self.written(tensor) for tensor in tensors]

    def fill(self) -> None:
        """Copy the tensors to their copies."""
        if self._filled:
            with torch.inference_mode():
                for tensor, copy in self._filled:
                    copy.copy_(tensor)

    def give_back(self) -> None:
        """Copy the written copies back to the tensors."""
        if self._given_back:
            with torch.inference_mode():
                for tensor, copy in self._given_back:
                    tensor.copy_(copy)
