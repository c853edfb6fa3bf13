"""What each name in a configuration stands for, and the parts of a run built by those names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from knltrain.backends.ipex_installation import check_ipex
from knltrain.build import factories
from knltrain.build.factories import Kernels
from knltrain.config import DataConfig, RunConfig
from knltrain.errors import ConfigError, unknown_name
from knltrain.network.alexnet import alexnet
from knltrain.network.cifar_quick import cifar_quick
from knltrain.network.googlenet import googlenet
from knltrain.network.lenet import lenet
from knltrain.network.network import Network
from knltrain.network.resnet import resnet18, resnet50
from knltrain.network.vgg import vgg16, vgg19

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend
    from knltrain.data.dataset import Dataset
    from knltrain.exchange.method import Method
    from knltrain.exchange.segment import Segment
    from knltrain.exchange.transport import Transport
    from knltrain.optimizers.optimizer import Optimizer

Choice = TypeVar("Choice")

NETWORKS: dict[str, Callable[[], Network]] = {
    "alexnet": alexnet,
    "cifar-quick": cifar_quick,
    "googlenet": googlenet,
    "lenet": lenet,
    "resnet-18": resnet18,
    "resnet-50": resnet50,
    "vgg-16": vgg16,
    "vgg-19": vgg19,
}
DATASETS: dict[str, Callable[[DataConfig], Dataset]] = {
    "digits": factories.digits,
    "mnist": factories.mnist,
}
BACKENDS: dict[str, Callable[[RunConfig, Network, int, int], Backend]] = {
    "cpu": factories.cpu_backend,
    "torch": factories.torch_backend,
}
OPTIMIZERS: dict[str, Callable[[RunConfig, Network, Kernels], Optimizer]] = {
    "sgd": factories.sgd,
    "lars": factories.lars,
    "adamw": factories.adamw,
}
METHODS: dict[str, Callable[[RunConfig, int, Kernels], Method]] = {
    "sync_easgd": factories.sync_easgd,
    "sync_sgd": factories.sync_sgd,
    "none": factories.no_exchange,
}
# oneDNN computes networks; optimizers and exchange rules beside it run Numba's kernels.
KERNELS: dict[str, Callable[[], Kernels]] = {
    "numba": factories.numba_kernels,
    "onednn": factories.numba_kernels,
    "reference": factories.reference_kernels,
}


def check_names(config: RunConfig) -> None:
    """Refuse names that nothing here answers to, before any process is started: `ConfigError`."""
    _pick("network.name", config.network.name, NETWORKS)
    _pick("data.name", config.data.name, DATASETS)
    _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)
    _pick("exchange.method", config.exchange.method, METHODS)
    _pick("backend.name", config.backend.name, BACKENDS)
    _pick("backend.implementation", config.backend.implementation, KERNELS)
    if config.backend.engine == "ipex":
        check_ipex()


def check_method(config: RunConfig, workers: int) -> None:
    """Refuse what the method of `[exchange]` cannot do, compiling nothing: `ConfigError`."""
    method = _pick("exchange.method", config.exchange.method, METHODS)
    method(config, workers, factories.reference_kernels())


def network_size(config: RunConfig) -> int:
    """Length of the packed vectors in float32 values, which sizes the shared segment."""
    return build_network(config).packed_size


def build_network(config: RunConfig) -> Network:
    """The network that `network.name` stands for."""
    return network_named(config.network.name)


def network_named(name: str) -> Network:
    """The network known by `name`; `ConfigError` if there is none."""
    return _pick("network.name", name, NETWORKS)()


def build_dataset(config: RunConfig) -> Dataset:
    """The images of `[data]`, read and normalised."""
    return _pick("data.name", config.data.name, DATASETS)(config.data)


def build_backend(config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    """What `[backend]` names, made ready for batches of up to `batch` images."""
    return _pick("backend.name", config.backend.name, BACKENDS)(config, network, batch, threads)


def build_optimizer(config: RunConfig, network: Network) -> Optimizer:
    """The optimizer of `[optimizer]` for the packed vectors of `network`."""
    build = _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)
    return build(config, network, _kernels(config))


def build_method(config: RunConfig, workers: int) -> Method:
    """The method of `[exchange]` for that many workers."""
    build = _pick("exchange.method", config.exchange.method, METHODS)
    return build(config, workers, _kernels(config))


def build_transport(config: RunConfig, segment: Segment | None, rank: int) -> Transport:
    """A worker's way to its peers: through the node's `segment`, or without one to itself alone."""
    if segment is None:
        from knltrain.exchange.loopback import Loopback

        return Loopback(network_size(config))
    from knltrain.exchange.node_shared import NodeShared

    return NodeShared(segment, rank, config.exchange.timeout_seconds)


def _kernels(config: RunConfig) -> Kernels:
    return _pick("backend.implementation", config.backend.implementation, KERNELS)()


def _pick(key: str, name: str, known: Mapping[str, Choice]) -> Choice:
    try:
        return known[name]
    except KeyError:
        raise ConfigError(unknown_name(key, name, known)) from None
