"""The door to the kernels: allocates their memory, and checks tensors before passing an address.

A kernel trusts its addresses and sizes. So all memory is allocated with an explicit dtype and
device, whatever PyTorch's defaults are, and addresses are taken here only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from vectorized_ops.layout import STORED

_TYPES = (Tensor, torch.nn.Parameter)

ACTIVATIONS = {torch.float32: np.dtype(np.float32), torch.bfloat16: STORED}
"""Types of images that kernels take, and NumPy's for the same."""


def floats(*size: int) -> Tensor:
    """Return memory for float32 values."""
    return torch.empty(size, dtype=torch.float32, device="cpu")


def maps(size: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return memory for images (N, C, H, W) in channels_last order."""
    return torch.empty(tuple(size), dtype=dtype, device="cpu", memory_format=torch.channels_last)


def is_open_to(tensor: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Tell whether kernels can take a tensor: of this dtype, on the CPU, with plain memory.

    Subclasses, sparse tensors and tensors with the negative bit are refused.
    """
    return (
        type(tensor) in _TYPES
        and tensor.dtype == dtype
        and tensor.is_cpu
        and tensor.layout == torch.strided
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )


def address(tensor: Tensor, size: Sequence[int], dtype: torch.dtype = torch.float32) -> int:
    """Return where a tensor of this size lies, its values behind each other in order of axes.

    Raises TypeError for what is no memory of this dtype on the CPU, ValueError for other sizes and
    orders.
    """
    _check(tensor, size, dtype)
    if not tensor.is_contiguous():
        raise ValueError(f"{_described(tensor)}: expected values behind each other (contiguous)")
    return tensor.data_ptr()


def maps_address(tensor: Tensor, size: Sequence[int], dtype: torch.dtype) -> int:
    """Return where images (N, C, H, W) of this size and dtype lie, in channels_last order.

    Raises what `address` raises.
    """
    _check(tensor, size, dtype)
    if not tensor.is_contiguous(memory_format=torch.channels_last):
        raise ValueError(f"{_described(tensor)}: expected channels_last memory")
    return tensor.data_ptr()


def rows_address(tensor: Tensor, size: Sequence[int], dtype: torch.dtype) -> tuple[int, int]:
    """Return where images of this size lie, and how far their pixels are apart, in elements.

    Raises what `address` raises.
    """
    _check(tensor, size, dtype)
    apart = distance(tensor)
    if not apart:
        raise ValueError(f"{_described(tensor)}: expected pixels as rows at equal distances")
    return tensor.data_ptr(), apart


def distance(tensor: Tensor) -> int:
    """Return how far pixels lie apart, in elements; 0 if pixels are no rows at equal distances."""
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


def _check(tensor: Tensor, size: Sequence[int], dtype: torch.dtype) -> None:
    if not is_open_to(tensor, dtype):
        raise TypeError(f"{_described(tensor)}: kernels take {dtype} in plain memory of the CPU")
    if tensor.shape != size:
        raise ValueError(f"{_described(tensor)}: expected the size {tuple(size)}")


def _described(tensor: Tensor) -> str:
    kind, layout = type(tensor).__name__, str(tensor.layout).removeprefix("torch.")
    return f"a {kind} of {tensor.dtype} on {tensor.device}, {layout}, {tuple(tensor.shape)}"
