"""Layers with parameters, which own their gradient and its sum over all ranks."""

from __future__ import annotations

import time
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from knltrain.communication.reduction import Reducer
from knltrain.distributed_ops.costs import Cost, ring_bytes, ring_steps
from knltrain.distributed_ops.gradient import GradientHandle
from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.packed import PackedLayout
from knltrain.distributed_ops.times import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, UPDATE
from knltrain.errors import NetworkError
from knltrain.vectors import FloatArray
from vectorized_ops import shapes
from vectorized_ops.layout import AnyArray
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.shapes import FLOAT_BYTES


class WeightedLayer(Layer):
    """A layer with `parameters` and `gradients` by name, each in one vector (n,) of float32.

    All ranks begin with the same parameters: they follow from the seed and the layer's name. A
    gradient belongs to its sum until `GradientHandle.wait`, and only one sum can be pending.
    """

    def __init__(
        self,
        name: str,
        shapes: Mapping[str, tuple[int, ...]],
        reducer: Reducer,
        options: Options | None,
        statistics: Mapping[str, float] | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(name, options)
        self.reducer = reducer
        self._packed = PackedLayout(shapes)
        self._values, self._gradient = self._packed.vector(), self._packed.vector()
        self._velocity = self._packed.vector()
        self.parameters = self._packed.views(self._values)
        self.gradients = self._packed.views(self._gradient)
        self._handle: GradientHandle | None = None
        segments = self._packed.segments(
            {"weights": self.options.weight_decay}, statistics or {}, rates or {}
        )
        self._update = self.options.sgd_update(segments, Clipping(), self.options.momentum, False)

    @abstractmethod
    def backward_weights(self, values: AnyArray, gradient: AnyArray) -> GradientHandle:
        """Compute the gradient from `forward`'s input and its output's gradient; begin sums."""

    def step(self, learning_rate: float) -> None:
        """Move the parameters along the gradient of all ranks: SGD with the options' momentum.

        Raises NetworkError unless there is a gradient whose sum was waited for.
        """
        if self._handle is None or not self._handle.is_reduced:
            missing = "none was computed" if self._handle is None else "it is still under way"
            raise NetworkError(
                f"layer '{self.name}' cannot step by its gradient: {missing}; call "
                "backward_weights, and wait() of what it returns, before each step"
            )
        with self.times[UPDATE].computing():
            self._update(self._values, self._gradient, self._velocity, learning_rate)
        self._handle = None

    def _reduced(self, pieces: Iterable[tuple[int, int]]) -> GradientHandle:
        """Begin the sum of each part of the gradient as soon as `pieces` has computed it."""
        if self._handle is not None and not self._handle.is_reduced:
            raise NetworkError(
                f"layer '{self.name}' cannot compute a gradient while the last sum is under way: "
                "call wait() of the handle that backward_weights returned before"
            )
        times, reductions = self.times[BACKWARD_WEIGHTS], []
        begun, starting = 0.0, 0.0
        begin = time.perf_counter()
        for start, stop in pieces:
            asked = time.perf_counter()
            begun = begun or asked
            piece = self._gradient[start:stop]
            reductions.append(self.reducer.start(piece, self.options.average))
            starting += time.perf_counter() - asked
        times.compute_seconds += time.perf_counter() - begin - starting
        times.calls += 1
        self._handle = GradientHandle(self.name, self.gradients, reductions, begun, times)
        return self._handle

    def _draw(self, parameter: str, inputs: int) -> None:
        """Initialise weights from a normal distribution, for ReLUs (He et al. 2015)."""
        key = self.options.seed << 32 | zlib.crc32(f"{self.name}.{parameter}".encode())
        stream = np.random.Generator(np.random.Philox(key))
        weights: FloatArray = self.parameters[parameter]
        weights[...] = stream.standard_normal(weights.shape) * np.sqrt(2 / inputs)

    def cost(self, direction: str) -> Cost:
        """See `Layer.cost`; the bytes sent count for the gradient."""
        if direction == UPDATE:
            update = shapes.SgdShape(self._packed.size).costs[UPDATE]
            return Cost(*2 * (update.flops, update.compulsory_bytes))
        computing = super().cost(direction)
        if direction != BACKWARD_WEIGHTS:
            return computing
        ranks = self.reducer.ranks
        wire = ring_bytes(FLOAT_BYTES * self._packed.size, ranks)
        return replace(computing, wire_bytes=wire, wire_steps=ring_steps(ranks))


class ProductLayer(WeightedLayer):
    """A layer whose outputs are products with its weights, by `_operation`.

    It returns `_out` forward and `_inputs_gradient` backward; errors call its input `takes`.
    """

    takes: ClassVar[str]
    _operation: Any
    _out: AnyArray
    _inputs_gradient: AnyArray

    def forward(self, values: AnyArray) -> AnyArray:
        """Return the outputs (N', H', W', K) or (N', O) of (N', H, W, C) or (N', I)."""
        self._check(self.takes, values, self._inputs_gradient)
        weights, bias = self.parameters["weights"], self.parameters.get("bias")
        with self.times[FORWARD].computing():
            self._operation.forward(values, weights, bias, self._out)
        return self._out

    def backward_weights(self, values: AnyArray, gradient: AnyArray) -> GradientHandle:
        """Compute the gradient from the values and the outputs' gradient; begin the sums.

        The padding of `gradient` must be zero. Raises NetworkError while the last sum is pending.
        """
        self._check(self.takes, values, self._inputs_gradient)
        self._check("a gradient", gradient, self._out)
        return self._reduced(self._pieces(values, gradient))

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the values, in their shape."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            weights = self.parameters["weights"]
            self._operation.backward_data(gradient, weights, self._inputs_gradient)
        return self._inputs_gradient

    def _algorithm(self, part: str) -> str | None:
        """Return the name of the algorithm that the operation has chosen."""
        choice = getattr(self._operation, "choices", {}).get(part)
        return None if choice is None else str(choice.name)

    @abstractmethod
    def _pieces(self, values: AnyArray, gradient: AnyArray) -> Iterator[tuple[int, int]]:
        """Compute the gradient chunk by chunk, and yield the range of each."""
