"""One function for each name that a configuration may choose, named as in the registries.

Nothing heavy is imported before the function that needs it is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from knltrain.build.resolve import moving_rate_of
from knltrain.config import DataConfig, RunConfig
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend, FloatArray
    from knltrain.backends.torch_execution import Execution
    from knltrain.data.dataset import Dataset
    from knltrain.exchange.method import Method
    from knltrain.network.network import Network
    from knltrain.optimizers.adamw import AdamWKernel
    from knltrain.optimizers.lars import LARSKernel
    from knltrain.optimizers.optimizer import Optimizer
    from knltrain.optimizers.sgd import SGDKernel
    from vectorized_ops.clipping import Clipping

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Kernels:
    """The arithmetic that optimizers and exchange rules do on packed vectors."""

    sgd: SGDKernel
    lars: LARSKernel
    adamw: AdamWKernel
    synchronous_elastic_update: Callable[[FloatArray, FloatArray, float], None]
    synchronous_average: Callable[[FloatArray, FloatArray], None]


def digits(config: DataConfig) -> Dataset:
    """UCI's handwritten digits, which come with the package."""
    from knltrain.data.digits import load_digits

    return load_digits(config.train_images, config.test_images)


def mnist(config: DataConfig) -> Dataset:
    """MNIST from the idx files in `data.root`; `ConfigError` if that is left out."""
    from knltrain.data.mnist import load_mnist

    if config.root is None:
        raise ConfigError(
            "data.root is missing: expected the folder with MNIST's idx files, as in "
            "--set data.root=/data/mnist"
        )
    return load_mnist(Path(config.root), config.train_images, config.test_images)


def cpu_backend(config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    """The kernels of `backend.implementation` on a static plan."""
    from knltrain.backends.cpu import CpuBackend

    chosen = config.backend
    return CpuBackend(
        network, batch, threads, chosen.implementation, chosen.winograd, chosen.micro_batch
    )


def torch_backend(config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    """PyTorch's modules and autograd, run by `backend.engine`."""
    from knltrain.backends.torch_backend import TorchBackend

    return TorchBackend(network, batch, threads, ENGINES[config.backend.engine](network))


def eager_execution(network: Network) -> Execution:
    """PyTorch as it is."""
    from knltrain.backends.torch_execution import EagerExecution

    return EagerExecution(network)


def ipex_execution(network: Network) -> Execution:
    """PyTorch with Intel's extension; `ConfigError` where that is not installed."""
    from knltrain.backends.ipex_execution import IpexExecution

    return IpexExecution(network)


ENGINES: dict[str, Callable[[Network], Execution]] = {
    "eager": eager_execution,
    "ipex": ipex_execution,
}


def numba_kernels() -> Kernels:
    """Kernels compiled for this processor."""
    from vectorized_ops.numba import adamw, elastic, lars, sgd

    return Kernels(
        sgd.SGDUpdate,
        lars.LARSUpdate,
        adamw.AdamWUpdate,
        elastic.synchronous_elastic_update,
        elastic.synchronous_average,
    )


def reference_kernels() -> Kernels:
    """Kernels in plain NumPy."""
    from vectorized_ops.reference import adamw, elastic, lars, sgd

    return Kernels(
        sgd.SGDUpdate,
        lars.LARSUpdate,
        adamw.AdamWUpdate,
        elastic.synchronous_elastic_update,
        elastic.synchronous_average,
    )


def sgd(config: RunConfig, network: Network, kernels: Kernels) -> Optimizer:
    """Stochastic gradient descent with momentum."""
    from knltrain.optimizers.sgd import SGD

    chosen = config.optimizer
    return SGD(
        network.segments,
        _given(chosen.momentum),
        _given(chosen.weight_decay),
        _given(chosen.nesterov),
        _clipping(config),
        kernels.sgd,
    )


def lars(config: RunConfig, network: Network, kernels: Kernels) -> Optimizer:
    """Gradient descent with a learning rate for each array of weights."""
    from knltrain.optimizers.lars import LARS

    chosen = config.optimizer
    return LARS(
        network.parameters,
        network.packed_size,
        _given(chosen.momentum),
        _given(chosen.weight_decay),
        _given(chosen.trust_coefficient),
        _clipping(config),
        kernels.lars,
    )


def adamw(config: RunConfig, network: Network, kernels: Kernels) -> Optimizer:
    """Adam with decoupled weight decay."""
    from knltrain.optimizers.adamw import AdamW

    chosen = config.optimizer
    return AdamW(
        network.segments,
        _given(chosen.beta1),
        _given(chosen.beta2),
        _given(chosen.epsilon),
        _given(chosen.weight_decay),
        _clipping(config),
        kernels.adamw,
    )


def _clipping(config: RunConfig) -> Clipping:
    from vectorized_ops.clipping import Clipping

    chosen = config.optimizer
    return Clipping(chosen.clip_norm or math.inf, chosen.clip_value or math.inf)


def _given(value: Value | None) -> Value:
    """A key that the optimizer reads; OptimizerConfig has filled it in."""
    assert value is not None
    return value


def sync_easgd(config: RunConfig, workers: int, kernels: Kernels) -> Method:
    """Workers and center pull on each other, all at once."""
    from knltrain.exchange.easgd import EASGD
    from knltrain.exchange.method import Method

    rule = EASGD(moving_rate_of(config, workers), workers, kernels.synchronous_elastic_update)
    return Method("sync_easgd", rule, "parameters", config.exchange.communication_period)


def sync_sgd(config: RunConfig, workers: int, kernels: Kernels) -> Method:
    """Every worker steps by the mean of all gradients."""
    from knltrain.exchange.averaging import ModelAveraging
    from knltrain.exchange.method import Method

    rule = ModelAveraging(workers, kernels.synchronous_average)
    return Method("sync_sgd", rule, "gradient", config.exchange.communication_period)


def no_exchange(config: RunConfig, workers: int, kernels: Kernels) -> Method:
    """Every worker for itself; an evaluation then measures each model on its worker's share."""
    return replace(sync_sgd(config, workers, kernels), name="none", period=None)
