"""A factory for each optimizer that a configuration may choose, named as in the registry."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from knltrain.config import RunConfig

if TYPE_CHECKING:
    from knltrain.assembly.factories import Described, Kernels, MakesOptimizer, OptimizerKernels
    from knltrain.network.network import Network
    from knltrain.optimizers.adaptive import AdaptiveUpdate
    from knltrain.optimizers.optimizer import LayerwiseOptimizer, Optimizer
    from vectorized_ops.parameter_groups import Clipping, ParameterGroups

Value = TypeVar("Value")


def by_layer(
    make: MakesOptimizer, config: RunConfig, network: Network, kernels: Kernels
) -> LayerwiseOptimizer:
    """An optimizer for each layer; one for all where a step needs the gradients of all."""
    from knltrain.network.layer_slices import layer_parts
    from knltrain.network.parameter_groups import part_of
    from knltrain.optimizers.optimizer import LayerwiseOptimizer

    parts = layer_parts(network)
    if config.optimizer.clip_norm is not None:
        parts = (slice(0, network.packed_size),)
    described = (part_of(network.parameters, network.parameter_groups, part) for part in parts)
    return LayerwiseOptimizer(
        parts, [make(config, each, kernels) for each in described], kernels.alone
    )


def sgd(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
    """Stochastic gradient descent with momentum."""
    from knltrain.optimizers.sgd import SGD

    chosen = config.optimizer
    return SGD(
        vector.parameter_groups,
        _given(chosen.momentum),
        _given(chosen.weight_decay),
        _given(chosen.nesterov),
        _clipping(config),
        kernels.sgd,
        _l1(config),
    )


def lars(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
    """Gradient descent with a learning rate for each array of weights."""
    from knltrain.optimizers.lars import LARS

    chosen = config.optimizer
    return LARS(
        vector.parameters,
        vector.packed_size,
        _given(chosen.momentum),
        _given(chosen.weight_decay),
        _given(chosen.trust_coefficient),
        _clipping(config),
        kernels.lars,
    )


def adamw(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
    """Adam with decoupled weight decay."""
    from knltrain.optimizers.adamw import AdamW

    chosen = config.optimizer
    return AdamW(
        vector.parameter_groups,
        _given(chosen.beta1),
        _given(chosen.beta2),
        _given(chosen.epsilon),
        _given(chosen.weight_decay),
        _clipping(config),
        kernels.adamw,
    )


def adam(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
    """Adam, with weight decay in the gradient."""
    chosen = config.optimizer
    numbers = map(_given, (chosen.beta1, chosen.beta2, chosen.epsilon))
    names = "first_moment", "second_moment"
    return _adaptive(config, vector, names, kernels.adaptive.AdamUpdate, *numbers)


def adagrad(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
    """Steps over the root of the sum of all squared gradients."""
    numbers = (_given(config.optimizer.epsilon),)
    update = kernels.adaptive.AdaGradUpdate
    return _adaptive(config, vector, ("squared_gradients",), update, *numbers)


def rmsprop(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
    """Steps over the root of a moving average of squared gradients."""
    numbers = map(_given, (config.optimizer.rho, config.optimizer.epsilon))
    update = kernels.adaptive.RMSPropUpdate
    return _adaptive(config, vector, ("squared_gradients",), update, *numbers)


def adadelta(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
    """Steps of the size of past steps."""
    numbers = map(_given, (config.optimizer.rho, config.optimizer.epsilon))
    names, update = ("squared_gradients", "squared_steps"), kernels.adaptive.AdaDeltaUpdate
    return _adaptive(config, vector, names, update, *numbers)


def _adaptive(
    config: RunConfig,
    vector: Described,
    names: Sequence[str],
    update: Callable[..., AdaptiveUpdate],
    *numbers: float,
) -> Optimizer:
    from knltrain.optimizers.adaptive import AdaptiveOptimizer

    def make(groups: ParameterGroups) -> AdaptiveUpdate:
        return update(groups, _clipping(config), _l1(config), *numbers)

    decay = _given(config.optimizer.weight_decay)
    return AdaptiveOptimizer(vector.parameter_groups, decay, names, make)


def _l1(config: RunConfig) -> bool:
    return config.optimizer.regularisation == "l1"


def _clipping(config: RunConfig) -> Clipping:
    """Bounds of the mean gradient; those of the configuration are of the sum, as Caffe's."""
    from vectorized_ops.parameter_groups import Clipping

    chosen, batches = config.optimizer, config.train.iter_size
    norm, value = chosen.clip_norm or math.inf, chosen.clip_value or math.inf
    return Clipping(norm / batches, value / batches)


def _given(value: Value | None) -> Value:
    """A key that the optimizer reads; OptimizerConfig guarantees it."""
    assert value is not None
    return value
