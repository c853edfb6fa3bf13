"""Optimizers whose vectors stay on a device between two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch

from knltrain.backends.torch.devices import failures_told
from knltrain.backends.torch.graphs import Graph
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.optimizers.adamw import MomentsUpdate
from knltrain.optimizers.adaptive import AdaptiveKernels, AdaptiveUpdate
from knltrain.optimizers.optimizer import Optimizer, StateArray
from knltrain.optimizers.sgd import VelocityUpdate
from knltrain.vectors import FloatArray
from vectorized_ops.device.adamw import AdamWUpdate
from vectorized_ops.device.adaptive import AdaDeltaUpdate, AdaGradUpdate, AdamUpdate, RMSPropUpdate
from vectorized_ops.device.groups import DeviceGroups, Numbers
from vectorized_ops.device.lars import LARSUpdate
from vectorized_ops.device.sgd import SGDUpdate
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

Step: TypeAlias = Callable[..., None]
"""Takes parameters and gradient (n,), vectors of state, and numbers."""


class Update(Protocol):
    """One of `vectorized_ops.device`."""

    def numbers(self, *given: Any) -> Numbers:
        """What changes from step to step, of the numbers that a `Step` is given."""

    def __call__(self, *tensors: Any) -> None:
        """Move parameters and states; the numbers come last."""


@final
class DeviceKernels:
    """The updates of `vectorized_ops.device`, called with arrays of the host as Numba's are.

    They compute with the arrays' copies in `mirrors`, which have the newest values afterwards.
    `states` are the vectors of state that they have been called with. With `graph`, which makes
    one, updates are recorded and replayed.
    """

    def __init__(self, mirrors: Mirrors, graph: Callable[[], Graph] | None = None) -> None:
        self.mirrors = mirrors
        self.states: list[FloatArray] = []
        self._graph = graph

    def sgd(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        momentum: float,
        nesterov: bool,
        l1: bool,
    ) -> VelocityUpdate:
        """Steps of SGD."""
        return self._there(SGDUpdate(self._groups(groups, clipping), momentum, nesterov, l1))

    def lars(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        momentum: float,
        trust_coefficient: float,
        adapted: npt.NDArray[np.bool_],
    ) -> VelocityUpdate:
        """Steps of LARS."""
        there = self._groups(groups, clipping)
        return self._there(LARSUpdate(there, momentum, trust_coefficient, adapted))

    def adamw(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> MomentsUpdate:
        """Steps of AdamW."""
        return self._there(AdamWUpdate(self._groups(groups, clipping), beta1, beta2, epsilon))

    @property
    def adaptive(self) -> AdaptiveKernels:
        """Steps of AdaGrad, RMSProp, AdaDelta and Adam."""
        return _Adaptive(self._adaptive)

    def _adaptive(self, update: Callable[..., Update]) -> Callable[..., AdaptiveUpdate]:
        def make(
            groups: ParameterGroups, clipping: Clipping, l1: bool, *numbers: float
        ) -> AdaptiveUpdate:
            return self._there(update(self._groups(groups, clipping), l1, *numbers))

        return make

    def _groups(self, groups: ParameterGroups, clipping: Clipping) -> DeviceGroups:
        return DeviceGroups(groups, clipping, self.mirrors.device)

    def _there(self, update: Update) -> Step:
        mirrors, replayed = self.mirrors, _Replayed(update, self._graph)

        def step(parameters: FloatArray, gradient: FloatArray, *rest: Any) -> None:
            states = [each for each in rest if isinstance(each, np.ndarray)]
            vectors = (parameters, gradient, *states)
            if not any(states[0] is each for each in self.states):
                self.states += states
            mirrors.follow(*vectors)
            for vector in vectors:
                mirrors.load(vector)
            numbers = rest[len(states) :]
            replayed([mirrors.packed(vector) for vector in vectors], update.numbers(*numbers))
            for vector in vectors:
                mirrors.store(vector)

        return step


@final
class _Replayed:
    """An update as a graph for each choice of vectors, where there are graphs.

    A graph reads numbers where they lie on the device, so there they are written before a replay.
    """

    def __init__(self, update: Update, make: Callable[[], Graph] | None) -> None:
        self._update, self._make = update, make
        self._graphs: dict[tuple[int, ...], Graph] = {}
        self._numbers: list[torch.Tensor] = []

    def __call__(self, vectors: Sequence[torch.Tensor], numbers: Numbers) -> None:
        """Move the vectors."""
        given = [torch.from_numpy(each) for each in numbers]
        if not self._numbers:
            device = vectors[0].device
            self._numbers = [torch.empty_like(each, device=device) for each in given]
        for there, each in zip(self._numbers, given, strict=True):
            there.copy_(each)
        if self._make is None:
            self._update(*vectors, *self._numbers)
            return
        key = tuple(vector.data_ptr() for vector in vectors)
        if key not in self._graphs:
            self._graphs[key] = self._recorded(self._make(), vectors)
        self._graphs[key].replay()

    def _recorded(self, graph: Graph, vectors: Sequence[torch.Tensor]) -> Graph:
        before = [vector.clone() for vector in vectors]
        graph.record(lambda: self._update(*vectors, *self._numbers))
        for vector, values in zip(vectors, before, strict=True):
            vector.copy_(values)
        return graph


class _Adaptive:
    def __init__(self, there: Callable[..., Callable[..., AdaptiveUpdate]]) -> None:
        self.AdaGradUpdate = there(AdaGradUpdate)
        self.RMSPropUpdate = there(RMSPropUpdate)
        self.AdaDeltaUpdate = there(AdaDeltaUpdate)
        self.AdamUpdate = there(AdamUpdate)


@final
class DeviceOptimizer(Optimizer):
    """An `optimizer` made with `kernels`, whose state comes to the host when it is asked for."""

    def __init__(self, optimizer: Optimizer, kernels: DeviceKernels) -> None:
        self._optimizer, self._kernels = optimizer, kernels

    @property
    def state(self) -> dict[str, StateArray]:
        """That of the optimizer, brought to the host."""
        self._kernels.mirrors.to_host(*self._kernels.states)
        return self._optimizer.state

    def state_written(self) -> None:
        """Go on from what was written into `state`."""
        self._kernels.mirrors.changed(*self._kernels.states)

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """Update the device's copy of `parameters`; that of `gradient` is overwritten."""
        with failures_told(self._kernels.mirrors.device):
            self._optimizer.step(parameters, gradient, learning_rate)
