"""Tensors as kernels over rows need them: pixels of channels, and integers as arguments."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch

from vectorized_ops.numba.emit.non_temporal import last_level_cache_bytes
from vectorized_ops.numba.kernels.channels_last.rows import padded
from vectorized_ops.torch._ambient import is_watched
from vectorized_ops.torch._door import (
    ACTIVATIONS,
    address,
    distance,
    is_open_to,
    rows_address,
)
from vectorized_ops.torch._team import threads_for

_STREAMED_BYTES = last_level_cache_bytes() // 2


def is_plain(*tensors: torch.Tensor | None) -> bool:
    """Tell whether kernels can take these images, and nobody watches.

    They are all float32 or all bfloat16, on the CPU and with values.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    return not is_watched() and (not given or _are_open_to(given, given[0].dtype))


def _are_open_to(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> bool:
    return dtype in ACTIVATIONS and all(is_open_to(t, dtype) and t.numel() > 0 for t in tensors)


def are_parameters(images: torch.Tensor, *tensors: torch.Tensor | None) -> bool:
    """Tell whether kernels can take these beside images that they take.

    As for PyTorch they are all float32, or all of the type of the images.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    return not given or (
        given[0].dtype in (torch.float32, images.dtype) and _are_open_to(given, given[0].dtype)
    )


def pixelwise(tensor: torch.Tensor) -> torch.Tensor:
    """Return the images (N, C, H, W) in channels_last memory, if need be as a copy."""
    return _in_memory(tensor).contiguous(memory_format=torch.channels_last)


def _in_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with every value where its strides say; gradients may come otherwise."""
    if tensor.layout != torch.strided:
        return tensor.to_dense()
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the images as they are if their pixels are rows at equal distances, else a copy."""
    tensor = _in_memory(tensor)
    return tensor if distance(tensor) else pixelwise(tensor)


def scratch(images: torch.Tensor, sums: int) -> torch.Tensor:
    """Return memory for what each thread sums up."""
    size = threads_for(images.numel()) * sums * padded(images.shape[1])
    return torch.empty(size + size // 2, dtype=torch.float64, device="cpu")


@final
class Pass:
    """A pass over rows on its way: what a kernel is given, and the tensors that it works on.

    All tensors are of one shape and dtype, and such as `rows_of` returns. `table` are constants,
    `sums` is from `scratch`.
    """

    def __init__(
        self,
        written: Sequence[torch.Tensor],
        read: Sequence[torch.Tensor],
        summands: Sequence[torch.Tensor] = (),
        table: torch.Tensor | None = None,
        scalar: float = 0.0,
        sums: torch.Tensor | None = None,
    ) -> None:
        tensors = *written, *read, *summands
        size, dtype = tensors[0].shape, tensors[0].dtype
        channels, values = size[1], tensors[0].numel()
        threads = threads_for(values)
        partial, totals = (0, 0) if sums is None else _sums_addresses(sums, threads, channels)
        past = past_caches(written, (*read, *summands))
        (bits,) = struct.unpack("q", struct.pack("d", scalar))
        constants = 0 if table is None else _table_address(table, channels)
        counts = threads, values // channels, channels
        given = [*counts, past, bits, constants, partial, totals, len(summands)]
        for tensor in tensors:
            given += rows_address(tensor, size, dtype)
        self._arguments = np.array(given, np.int64)
        self._element = ACTIVATIONS[dtype]
        self._alive = tensors, table, sums

    def run(self, kernel: Callable[..., None], *more: Any) -> None:
        """Run a kernel that passes over the tensors; there may be more arguments."""
        kernel(self._arguments, self._element, *more)

    def finish(self, kernel: Callable[..., None], *more: Any) -> None:
        """Run a kernel on what was summed up."""
        kernel(self._arguments, *more)


def _sums_addresses(sums: torch.Tensor, threads: int, channels: int) -> tuple[int, int]:
    """Return where sums of single threads lie, and those of all; see `scratch`."""
    own = sums.numel() // 3 * 2
    if own < threads * padded(channels):
        raise ValueError(
            f"{sums.numel()} sums for {threads} threads and {channels} channels: expected "
            "what `scratch` returns"
        )
    first = address(sums, sums.shape, torch.float64)
    return first + 8 * own, first


def _table_address(table: torch.Tensor, channels: int) -> int:
    rows = table.numel() // padded(channels)
    return address(table, (rows, padded(channels)))


def past_caches(written: Sequence[torch.Tensor], read: Sequence[torch.Tensor]) -> bool:
    """Tell whether to write past the caches: what is too large for them, and not there already."""
    places = {tensor.data_ptr() for tensor in read}
    return bool(written) and all(
        tensor.element_size() * tensor.numel() > _STREAMED_BYTES
        and tensor.data_ptr() % 64 == 0
        and distance(tensor) % 16 == 0
        and tensor.shape[1] % 16 == 0
        and tensor.data_ptr() not in places
        for tensor in written
    )
