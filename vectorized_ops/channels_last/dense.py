"""Dense layers: inputs and outputs are transposed, so that the weights are read as they lie."""

from __future__ import annotations

from vectorized_ops.channels_last.rows import check_shapes
from vectorized_ops.channels_last.turning import turn_in, turn_out
from vectorized_ops.layout import AnyArray, images_last_in, padded_images
from vectorized_ops.numba.dense import Dense as Vectorised
from vectorized_ops.numba.emit.scratch import ScratchUser


class Dense(ScratchUser):
    """See `vectorized_ops.reference.dense.Dense`; the kernels' lanes are images.

    Each direction reads or writes the weights once, and inputs, outputs and a mask as often as they
    are transposed: twice. Results are the same to the last bit with any number of threads. Raises
    OperationError for counts below 1.
    """

    def __init__(self, images: int, inputs: int, outputs: int) -> None:
        self._vectorised = Vectorised(images, inputs, outputs)
        self._padded = padded_images(images)
        self._inputs, self._outputs = (images, inputs), (images, outputs)
        self._sizes = [self._padded * count for count in (inputs, inputs, outputs)]

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return sum(self._sizes) + self._vectorised.scratch_size

    def use_scratch(self, memory: AnyArray) -> None:
        """Work in flat float32 `memory` of at least `scratch_size`, aligned to 64 bytes."""
        super().use_scratch(memory)
        self._vectorised.use_scratch(memory[sum(self._sizes) :])

    def forward(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write inputs @ weights^T + bias, cut off at zero with `relu`."""
        check_shapes(self._inputs, inputs)
        check_shapes(self._outputs, out)
        given, _, results = self._arrays()
        turn_in(inputs, given)
        self._vectorised.forward(given, weights, bias, results, relu)
        turn_out(results, out)

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient @ weights, or add it; zero where `mask` is not positive."""
        check_shapes(self._outputs, gradient)
        check_shapes(self._inputs, out, mask)
        results, masking, above = self._arrays()
        turn_in(gradient, above)
        if add:
            turn_in(out, results)
        if mask is not None:
            turn_in(mask, masking)
        cut = None if mask is None else masking
        self._vectorised.backward_data(above, weights, results, add, cut)
        turn_out(results, out)

    def backward_weights(
        self, inputs: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray | None
    ) -> None:
        """Write gradient^T @ inputs and, unless `bias_out` is None, the gradient's sum."""
        check_shapes(self._inputs, inputs)
        check_shapes(self._outputs, gradient)
        given, _, above = self._arrays()
        turn_in(inputs, given)
        turn_in(gradient, above)
        self._vectorised.backward_weights(given, above, weights_out, bias_out)

    def _arrays(self) -> list[AnyArray]:
        """Return two arrays as inputs and one as outputs, whose images run fastest."""
        shapes = self._inputs, self._inputs, self._outputs
        return [
            images_last_in(piece, shape)
            for piece, shape in zip(self._pieces(self._sizes), shapes, strict=True)
        ]
