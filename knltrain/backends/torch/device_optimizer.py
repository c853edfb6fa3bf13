"""Optimizers whose vectors stay on a device between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.backends.torch.devices import failures_told
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.optimizers.adamw import MomentsUpdate
from knltrain.optimizers.adaptive import AdaptiveKernels, AdaptiveUpdate
from knltrain.optimizers.optimizer import Optimizer, StateArray
from knltrain.optimizers.sgd import VelocityUpdate
from knltrain.vectors import FloatArray
from vectorized_ops.device.adamw import AdamWUpdate
from vectorized_ops.device.adaptive import AdaDeltaUpdate, AdaGradUpdate, AdamUpdate, RMSPropUpdate
from vectorized_ops.device.groups import DeviceGroups
from vectorized_ops.device.lars import LARSUpdate
from vectorized_ops.device.sgd import SGDUpdate
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

Update: TypeAlias = Callable[..., None]
"""Takes parameters and gradient (n,), vectors of state, and numbers."""


@final
class DeviceKernels:
    """The updates of `vectorized_ops.device`, called with arrays of the host as Numba's are.

    They compute with the arrays' copies in `mirrors`, which have the newest values afterwards.
    `states` are the vectors of state that they have been called with.
    """

    def __init__(self, mirrors: Mirrors) -> None:
        self.mirrors = mirrors
        self.states: list[FloatArray] = []

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

    def _there(self, update: Update) -> Update:
        mirrors = self.mirrors

        def step(parameters: FloatArray, gradient: FloatArray, *rest: Any) -> None:
            states = [each for each in rest if isinstance(each, np.ndarray)]
            vectors = (parameters, gradient, *states)
            if not any(states[0] is each for each in self.states):
                self.states += states
            mirrors.follow(*vectors)
            for vector in vectors:
                mirrors.load(vector)
            numbers = rest[len(states) :]
            update(*(mirrors.packed(vector) for vector in vectors), *numbers)
            for vector in vectors:
                mirrors.store(vector)

        return step


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
