"""One function for each name that a configuration may choose, named as in the registries.

Nothing heavy is imported before the function that needs it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from knltrain.build.resolve import moving_rate_of
from knltrain.config import DataConfig, RunConfig
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend, FloatArray
    from knltrain.data.dataset import Dataset
    from knltrain.exchange.method import Method
    from knltrain.network.network import Network
    from knltrain.optimizers.optimizer import Optimizer
    from knltrain.optimizers.sgd import UpdateKernel


@dataclass(frozen=True, slots=True)
class Kernels:
    """The arithmetic that optimizers and exchange rules do on packed vectors."""

    sgd_update: UpdateKernel
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

    return CpuBackend(network, batch, threads, config.backend.implementation)


def torch_backend(_config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    """PyTorch's modules and autograd."""
    from knltrain.backends.torch_backend import TorchBackend

    return TorchBackend(network, batch, threads)


def numba_kernels() -> Kernels:
    """Kernels compiled for this processor."""
    from vectorized_ops.numba.elastic import synchronous_average, synchronous_elastic_update
    from vectorized_ops.numba.sgd import sgd_update

    return Kernels(sgd_update, synchronous_elastic_update, synchronous_average)


def reference_kernels() -> Kernels:
    """Kernels in plain NumPy."""
    from vectorized_ops.reference.elastic import synchronous_average, synchronous_elastic_update
    from vectorized_ops.reference.sgd import sgd_update

    return Kernels(sgd_update, synchronous_elastic_update, synchronous_average)


def sgd(config: RunConfig, size: int, kernels: Kernels) -> Optimizer:
    """Stochastic gradient descent with momentum."""
    from knltrain.optimizers.sgd import SGD

    chosen = config.optimizer
    return SGD(size, chosen.momentum, chosen.weight_decay, chosen.nesterov, kernels.sgd_update)


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
