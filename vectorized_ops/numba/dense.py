"""Dense layers as matrix products in register tiles; one lane is one image."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import numba
import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    IMAGE_LANES,
    STORED,
    AnyArray,
    aligned_zeros,
    padded_images,
    pixels,
)
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import streamed
from vectorized_ops.numba.kernels.dense import loops as kernels
from vectorized_ops.numba.kernels.dense.tiles import ROWS, WIDTH


class Dense:
    """See `vectorized_ops.reference.dense.Dense`; inputs and outputs have images run fastest.

    N is rounded up to whole vectors. Each direction reads or writes the weights once. Results are
    the same to the last bit with any number of threads. `scratch_size` floats of memory are needed
    during a call, and hold nothing between calls: give many operations the same by `use_scratch`,
    otherwise each makes its own when first called. Where vectors are `kept` in bfloat16, so are
    the operands of products, in pairs; of an odd number of values, and of weights' gradients of an
    odd number of vectors of images, they are float32. Raises OperationError for counts below 1.
    """

    def __init__(
        self, images: int, inputs: int, outputs: int, kept: npt.DTypeLike = np.float32
    ) -> None:
        if min(images, inputs, outputs) < 1:
            raise OperationError(
                f"a dense layer from {inputs} inputs to {outputs} outputs for {images} images was "
                "asked for: expected at least one of each"
            )
        self._images, self._inputs, self._outputs = padded_images(images), inputs, outputs
        self._forward = kernels.forward_blocks(inputs, outputs)
        self._backward = kernels.backward_blocks(inputs, outputs)
        self._ahead, self._ahead_back = self._forward.ahead(), self._backward.ahead()
        threads, columns = numba.get_num_threads(), -(-inputs // WIDTH)
        self._chunk = kernels.chunk_size(columns, outputs, threads)
        edges = threads, ROWS * self._images
        self._scratch_shapes: dict[str, list[tuple[int, ...]]] = {
            "forward": [(threads, self._forward.packed_size), edges],
            "backward": [(threads, self._backward.packed_size), edges],
            "weights": [(columns, self._images, WIDTH), edges, (threads, ROWS * WIDTH)],
        }
        wide = (self._images * inputs, self._images * outputs) if kept != np.float32 else (0, 0)
        for shapes in self._scratch_shapes.values():
            shapes += [(size,) for size in wide]
        self._scratch: dict[str, list[AnyArray]] = {}
        self._nothing, self._kept = aligned_zeros((0,)), np.dtype(kept)

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return max(sum(map(math.prod, shapes)) for shapes in self._scratch_shapes.values())

    def use_scratch(self, memory: AnyArray) -> None:
        """Work in flat float32 `memory` of at least `scratch_size`, aligned to 64 bytes."""
        for direction, shapes in self._scratch_shapes.items():
            ends = list(accumulate(map(math.prod, shapes), initial=0))
            self._scratch[direction] = [
                memory[begin:end].reshape(shape)
                for (begin, end), shape in zip(pairwise(ends), shapes, strict=True)
            ]

    def forward(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write inputs @ weights^T + bias, cut off at zero with `relu`."""
        *pieces, wide_inputs, wide_outputs = self._pieces("forward")
        given = _multiplied(self._flat(inputs, self._inputs), self._inputs, wide_inputs)
        flat = self._flat(out, self._outputs)
        target = flat if flat.dtype == np.float32 else wide_outputs
        kernels.multiply(
            target, self._images, weights, given, self._nothing if bias is None else bias, target,
            False, relu, self._forward, self._ahead, *pieces,
        )  # fmt: skip
        if target is not flat:
            _copy(target, flat)

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient @ weights, or add it; zero where `mask` is not positive."""
        *pieces, wide_inputs, wide_outputs = self._pieces("backward")
        above = _multiplied(self._flat(gradient, self._outputs), self._outputs, wide_outputs)
        flat = self._flat(out, self._inputs)
        target = flat if flat.dtype == np.float32 else wide_inputs
        if add and target is not flat:
            _copy(flat, target)
        masking = target if mask is None else self._flat(mask, self._inputs)
        kernels.multiply(
            target, self._images, weights, above, self._nothing, masking, add, mask is not None,
            self._backward, self._ahead_back, *pieces,
        )  # fmt: skip
        if target is not flat:
            _copy(target, flat)

    def backward_weights(
        self,
        inputs: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        """Write gradient^T @ inputs and, unless `bias_out` is None, the gradient's sum."""
        past_caches = self._inputs % LANES == 0 and streamed(weights_out, weights_out.nbytes)
        turned, edges, spare, wide_inputs, wide_outputs = self._pieces("weights")
        given, summed = self._flat(inputs, self._inputs), self._flat(gradient, self._outputs)
        if given.dtype == summed.dtype == STORED and self._images % (2 * IMAGE_LANES) == 0:
            source, above, turned, edges = (
                each.view(np.uint32) for each in (given, summed, turned, edges)
            )
        else:
            source, above = _widened(given, wide_inputs), _widened(summed, wide_outputs)
        kernels.weights_gradient(
            source, above, len(above) // self._outputs, weights_out,
            self._nothing if bias_out is None else bias_out, self._chunk, past_caches, turned,
            edges, spare, summed,
        )  # fmt: skip

    def _flat(self, vectors: AnyArray, columns: int) -> AnyArray:
        is_kept = vectors.dtype in (np.float32, self._kept)
        if vectors.shape != (self._images, columns) or not is_kept:
            raise OperationError(
                f"an array of shape {vectors.shape} and type {vectors.dtype} was given to a dense "
                f"layer from {self._inputs} inputs to {self._outputs} outputs: expected shape "
                f"{(self._images, columns)}, float32 or what is kept, {self._kept}"
            )
        return pixels(vectors)[0]

    def _pieces(self, direction: str) -> list[AnyArray]:
        if not self._scratch:
            self.use_scratch(aligned_zeros((self.scratch_size,)))
        return self._scratch[direction]


def _multiplied(flat: AnyArray, steps: int, memory: AnyArray) -> AnyArray:
    """Return flat values for a product over so many steps: bfloat16 only in pairs of them."""
    return flat if steps % 2 == 0 else _widened(flat, memory)


def _widened(flat: AnyArray, memory: AnyArray) -> AnyArray:
    """Return flat values as float32: as they are, or copied to `memory`."""
    if flat.dtype == np.float32:
        return flat
    _copy(flat, memory)
    return memory


def _copy(values: AnyArray, out: AnyArray) -> None:
    from vectorized_ops.numba.copying import copy  # where vectors are kept in bfloat16 alone

    copy(values, out)
