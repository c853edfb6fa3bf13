"""Tensors as the passes over rows want them: pixels of channels, and integers as arguments."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch

from vectorized_ops.numba._channels_last_rows import padded
from vectorized_ops.numba._streaming import last_level_cache_bytes
from vectorized_ops.torch._team import threads_for

_STREAMED_BYTES = last_level_cache_bytes() // 2


def is_plain(*tensors: torch.Tensor | None) -> bool:
    """Tell whether kernels can take these: float32 on the CPU, with values, and no autocast.

    torch.compile has to see PyTorch's own operations.
    """
    if torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
        return False
    return all(tensor is None or _is_plain(tensor) for tensor in tensors)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.numel() > 0
    )


def pixelwise(tensor: torch.Tensor) -> torch.Tensor:
    """Return the images (N, C, H, W) in channels_last memory, if need be as a copy."""
    return tensor.contiguous(memory_format=torch.channels_last)


def distance(tensor: torch.Tensor) -> int:
    """Return how far pixels lie apart, in floats; 0 if pixels are no rows at equal distances."""
    _, channels, height, width = tensor.shape
    image, channel, line, pixel = tensor.stride()
    if width == 1:
        pixel = line if height > 1 else image
    if height == 1:
        line = pixel * width
    if tensor.shape[0] == 1:
        image = line * height
    regular = line == pixel * width and image == line * height
    return pixel if regular and (channel == 1 or channels == 1) and pixel >= channels else 0


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the images as they are if their pixels are rows at equal distances, else a copy."""
    return tensor if distance(tensor) else pixelwise(tensor)


def scratch(images: torch.Tensor, sums: int) -> torch.Tensor:
    """Return memory for what each thread sums up."""
    size = threads_for(images.numel()) * sums * padded(images.shape[1])
    return torch.empty(size + size // 2, dtype=torch.float64)


@final
class Pass:
    """A pass over rows on its way: what a kernel is given, and the tensors that it works on.

    All tensors are of one shape and such as `rows_of` returns. `table` are constants, `sums` is
    from `scratch`.
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
        channels, values = tensors[0].shape[1], tensors[0].numel()
        totals = 0 if sums is None else sums.data_ptr()
        partial = 0 if sums is None else totals + sums.numel() // 3 * 2 * 8
        past = past_caches(written, (*read, *summands))
        (bits,) = struct.unpack("q", struct.pack("d", scalar))
        constants = 0 if table is None else table.data_ptr()
        counts = threads_for(values), values // channels, channels
        given = [*counts, past, bits, constants, partial, totals, len(summands)]
        for tensor in tensors:
            given += (tensor.data_ptr(), distance(tensor))
        self._arguments = np.array(given, np.int64)
        self._alive = tensors, table, sums

    def run(self, kernel: Callable[..., None], *more: Any) -> None:
        """Run a kernel on it; there may be more arguments."""
        kernel(self._arguments, *more)


def past_caches(written: Sequence[torch.Tensor], read: Sequence[torch.Tensor]) -> bool:
    """Tell whether to write past the caches: what is too large for them, and not there already."""
    places = {tensor.data_ptr() for tensor in read}
    return bool(written) and all(
        4 * tensor.numel() > _STREAMED_BYTES
        and tensor.data_ptr() % 64 == 0
        and distance(tensor) % 16 == 0
        and tensor.shape[1] % 16 == 0
        and tensor.data_ptr() not in places
        for tensor in written
    )
