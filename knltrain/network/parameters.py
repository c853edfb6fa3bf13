"""All parameters of a network in one contiguous float32 vector, with a named view for each."""

from __future__ import annotations

import numpy as np

from knltrain.errors import NetworkError
from knltrain.network.initial_values import draw
from knltrain.network.network import Network
from knltrain.vectors import FloatArray, aligned_zeros


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
