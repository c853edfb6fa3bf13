"""All parameters of a network in one contiguous float32 vector, with a named view for each.

Their random initial values depend on the seed alone, not on the machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knltrain.errors import NetworkError
from knltrain.network.layers import Initial
from knltrain.network.network import Network
from knltrain.vectors import FloatArray, aligned_zeros

MANTISSA_BITS = 24  # of a float32: 24 random bits make a uniform number without rounding
CHUNK = 1 << 20
"""Values made at a time, so that a layer of 100 million takes no gigabytes of scratch memory.

It is even, as normal values are made in pairs, so the values do not depend on it.
"""


def draw(initial: Initial, stream: np.random.Philox, out: FloatArray) -> None:
    """Fill `out` (n,) float32 from raw Philox numbers, which NumPy keeps stable for ever."""
    if initial.kind == "constant":
        out.fill(initial.size)
        return
    values = _uniform if initial.kind == "uniform" else _normal
    for start in range(0, out.size, CHUNK):
        part = out[start : start + CHUNK]
        part[...] = values(stream, part.size, initial.size)


def _uniform(stream: np.random.Philox, size: int, bound: float) -> FloatArray:
    """Uniform in ±bound."""
    words = stream.random_raw(size) >> np.uint64(64 - MANTISSA_BITS)
    unit = words.astype(np.float32) * np.float32(2.0**-MANTISSA_BITS)
    out: FloatArray = (unit - np.float32(0.5)) * np.float32(2 * bound)
    return out


def _normal(stream: np.random.Philox, size: int, deviation: float) -> npt.NDArray[np.float64]:
    """Normal with mean 0: two values from two random numbers (Box and Muller, 1958).

    Computed in float64: its logarithm, sine and cosine differ between machines only far behind the
    last bit of the float32 result.
    """
    words = stream.random_raw(size + size % 2) >> np.uint64(11)
    first, second = (words * 2.0**-53).reshape(-1, 2).T  # in [0, 1)
    radius = deviation * np.sqrt(-2 * np.log1p(-first))
    angle = 2 * np.pi * second
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:size]


class ParameterVector:
    """`packed` float32 (network.packed_size,) and `views` into it by parameter name.

    Given a `buffer` (a row of a segment, say) the vector lives there, values untouched;
    otherwise it gets memory of its own, aligned to 64 bytes and zero. Raises NetworkError when
    the buffer is not a contiguous float32 vector of the network's packed size.
    """

    def __init__(self, network: Network, buffer: FloatArray | None = None) -> None:
        if buffer is None:
            buffer = aligned_zeros(network.packed_size)
        _check_buffer(network, buffer)
        self.network = network
        self.packed = buffer
        self.views: dict[str, FloatArray] = {
            spec.name: buffer[spec.offset : spec.offset + spec.size].reshape(spec.shape)
            for spec in network.parameters
        }

    def initialise(self, seed: int) -> None:
        """Fill every parameter as its layer's `initialiser` says, and the padding with zero.

        The values depend on the seed alone, uniform ones to the last bit.
        """
        stream = np.random.Philox(seed)
        self.packed.fill(0)
        for spec in self.network.parameters:
            draw(spec.initial, stream, self.packed[spec.offset : spec.offset + spec.size])


def _check_buffer(network: Network, buffer: FloatArray) -> None:
    if (
        buffer.dtype != np.float32
        or buffer.shape != (network.packed_size,)
        or not buffer.flags.c_contiguous
    ):
        raise NetworkError(
            f"packed vector of network '{network.name}': expected contiguous float32 "
            f"({network.packed_size},), got {buffer.dtype} {buffer.shape} with strides "
            f"{buffer.strides} bytes"
        )
