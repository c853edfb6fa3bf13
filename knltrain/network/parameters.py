"""All parameters of a network in one contiguous float32 vector, with a named view for each."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from knltrain.errors import NetworkError
from knltrain.network.network import Network
from vectorized_ops import layout

FloatArray = npt.NDArray[np.float32]

MANTISSA_BITS = 24  # of a float32: 24 random bits make a uniform number without rounding


class ParameterVector:
    """`packed` float32 (network.packed_size,) and `views` into it by parameter name.

    Given a `buffer` (a row of a shared segment, say) the vector lives there, values untouched;
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
        """Fill with Caffe's "xavier": weights uniform in ±sqrt(3 / fan_in), biases and padding 0.

        Glorot and Bengio, AISTATS 2010, in the form of Caffe's XavierFiller. The values depend on
        the seed alone: raw Philox words, which NumPy keeps stable between versions and machines.
        """
        stream = np.random.Philox(seed)
        self.packed.fill(0)
        for spec in self.network.parameters:
            if not spec.is_bias:
                bound = math.sqrt(3 / spec.fan_in)
                self.views[spec.name][...] = _uniform(stream, spec.size, bound).reshape(spec.shape)


def aligned_zeros(size: int) -> FloatArray:
    """Zeros float32 (size,) that start on a 64-byte boundary, touched by the calling thread."""
    vector: FloatArray = layout.aligned_zeros((size,))
    vector.fill(0)  # The kernel gives memory from where it is first written.
    return vector


def _uniform(stream: np.random.Philox, size: int, bound: float) -> FloatArray:
    words = stream.random_raw(size) >> np.uint64(64 - MANTISSA_BITS)
    unit = words.astype(np.float32) * np.float32(2.0**-MANTISSA_BITS)
    out: FloatArray = (unit - np.float32(0.5)) * np.float32(2 * bound)
    return out


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
