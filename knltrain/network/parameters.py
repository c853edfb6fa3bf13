"""All parameters of a network in one contiguous float32 vector, with a named view for each.

Their random initial values depend on the seed alone, not on the machine.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from affinity.process.binding import allowed_cpus
from knltrain.errors import NetworkError
from knltrain.network.layers import Initial
from knltrain.network.network import Network
from knltrain.vectors import FloatArray, aligned_zeros

Words: TypeAlias = npt.NDArray[np.uint64]

MANTISSA_BITS: Final = 24  # of a float32: 24 random bits make a uniform number without rounding
CHUNK = 1 << 15
"""Values that a thread makes at a time: few enough for its caches, and for memory that is kept by
malloc and not mapped anew, page by page, each time.

It is even, as normal values are made in pairs, so the values do not depend on it.
"""

_BLOCK: Final = 4  # words, by which Philox counts


def words_taken(initial: Initial, size: int) -> int:
    """Random words behind so many values."""
    return {"constant": 0, "uniform": size, "normal": size + size % 2}[initial.kind]


def draw(initial: Initial, seed: int, begin: int, out: FloatArray) -> None:
    """Fill `out` (n,) float32 from raw Philox numbers, which NumPy keeps stable for ever.

    It takes the seed's words from number `begin` on.
    """
    if initial.kind == "constant":
        out.fill(initial.size)
        return
    stream = np.random.Philox(seed).advance(begin // _BLOCK)
    words = stream.random_raw(begin % _BLOCK + words_taken(initial, out.size))[begin % _BLOCK :]
    (_uniform if initial.kind == "uniform" else _normal)(words, initial.size, out)


def _uniform(words: Words, bound: float, out: FloatArray) -> None:
    """Uniform in ±bound."""
    words >>= np.uint64(64 - MANTISSA_BITS)
    np.multiply(words.astype(np.float32), np.float32(2.0**-MANTISSA_BITS), out=out)
    out -= np.float32(0.5)
    out *= np.float32(2 * bound)


def _normal(words: Words, deviation: float, out: FloatArray) -> None:
    """Normal with mean 0: two values from two random numbers (Box and Muller, 1958).

    Computed in float64: its logarithm, sine and cosine differ between machines only far behind the
    last bit of the float32 result.
    """
    words >>= np.uint64(11)
    first, second = (words * 2.0**-53).reshape(-1, 2).T  # in [0, 1)
    radius = deviation * np.sqrt(-2 * np.log1p(-first))
    angle = 2 * np.pi * second
    out[::2] = radius * np.cos(angle)
    out[1::2] = (radius * np.sin(angle))[: out.size // 2]


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

    def initialise(self, seed: int, stopped: Event | None = None) -> bool:
        """Fill every parameter as its layer's `initialiser` says, and the padding with zero.

        The values depend on the seed alone, uniform ones to the last bit. Returns False if it was
        `stopped` before the end.
        """
        self.packed.fill(0)
        begin, draws = 0, []
        for spec in self.network.parameters:
            values = self.packed[spec.offset : spec.offset + spec.size]
            for start in range(0, spec.size, CHUNK):
                part = values[start : start + CHUNK]
                draws.append((spec.initial, seed, begin, part))
                begin += words_taken(spec.initial, part.size)
        with ThreadPoolExecutor(len(allowed_cpus())) as threads:
            for _ in threads.map(draw, *zip(*draws, strict=True)):
                if stopped is not None and stopped.is_set():
                    threads.shutdown(cancel_futures=True)
                    return False
        return True


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
