"""What each name in a configuration stands for, and the parts of a run built by those names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from knltrain.assembly import factories
from knltrain.assembly.factories import DataSource, Kernels
from knltrain.assembly.method_order import MethodContext
from knltrain.assembly.methods import BUILDERS, build
from knltrain.backends.torch.ipex_installation import check_ipex
from knltrain.cluster import MeetingPoint
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS, MethodFacts
from knltrain.errors import ConfigError, unknown_name
from knltrain.network.network import Network
from knltrain.network.zoo.alexnet import alexnet
from knltrain.network.zoo.cifar_quick import cifar_quick
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.resnet import resnet18, resnet50
from knltrain.network.zoo.vgg import vgg16, vgg19

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend
    from knltrain.communication.internode.collective import NodeCollective
    from knltrain.communication.internode.wire import WireFormat
    from knltrain.data.dataset import Dataset
    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.transports.joining import JoinJob
    from knltrain.exchange.transports.team import Team
    from knltrain.optimizers.optimizer import Optimizer

Choice = TypeVar("Choice")

NETWORKS: dict[str, Callable[..., Network]] = {
    "alexnet": alexnet,
    "cifar-quick": cifar_quick,
    "googlenet": googlenet,
    "lenet": lenet,
    "resnet-18": resnet18,
    "resnet-50": resnet50,
    "vgg-16": vgg16,
    "vgg-19": vgg19,
}
DATASETS: dict[str, DataSource] = {
    "digits": DataSource(factories.digits_extent, factories.digits),
    "mnist": DataSource(factories.mnist_extent, factories.mnist, in_root=True),
    "mnist-t10k": DataSource(factories.mnist_t10k_extent, factories.mnist_t10k, in_root=True),
    "synthetic": DataSource(factories.synthetic_extent, factories.synthetic),
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
# oneDNN computes networks; optimizers and exchange rules beside it run Numba's kernels.
KERNELS: dict[str, Callable[[], Kernels]] = {
    "numba": factories.numba_kernels,
    "onednn": factories.numba_kernels,
    "reference": factories.reference_kernels,
}
WIRE_FORMATS: dict[str, Callable[[RunConfig, Kernels, int], WireFormat] | None] = {
    "float32": None,  # as the collective has it
    "bfloat16": factories.bfloat16,
    "int8": factories.int8,
    "top_k": factories.top_k,
}


def check_names(config: RunConfig) -> None:
    """Refuse names that nothing here answers to, before any process is started: `ConfigError`."""
    _pick("network.name", config.network.name, NETWORKS)
    _pick("data.name", config.data.name, DATASETS)
    _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)
    _pick("exchange.method", config.exchange.method, BUILDERS)
    _pick("backend.name", config.backend.name, BACKENDS)
    _pick("backend.implementation", config.backend.implementation, KERNELS)
    if config.backend.engine == "ipex":
        check_ipex()


def plain_method(config: RunConfig, workers: int) -> Method:
    """The method with kernels that need not be compiled; ConfigError for what it cannot do."""
    return _method(config, workers, factories.reference_kernels(), None)


def network_size(config: RunConfig) -> int:
    """Length of the packed vectors in float32 values, which sizes the shared group."""
    return build_network(config).packed_size


def build_network(config: RunConfig) -> Network:
    """The network that `network.name` stands for, with outputs for `network.classes`."""
    return network_named(config.network.name, config.network.classes)


def network_named(name: str, classes: int | None = None) -> Network:
    """The network known by `name`; `ConfigError` if there is none."""
    make = _pick("network.name", name, NETWORKS)
    return make() if classes is None else make(classes)


def build_dataset(config: RunConfig, copies: int = 1) -> Dataset:
    """The images of `[data]`, read, normalised and enlarged.

    Raises `DataError` before any are read where this computer cannot hold so many `copies`.
    """
    from knltrain.data.extent import check_room

    chosen, side = config.data, config.data.side_pixels
    source = _pick("data.name", chosen.name, DATASETS)
    extent = source.extent(chosen).first(chosen.train_images, chosen.test_images)
    check_room(extent, chosen.name, side, chosen.shift_pixels, copies)
    dataset = source.load(chosen)
    if side is None:
        return dataset
    from knltrain.data.enlarging import enlarged_dataset

    return enlarged_dataset(dataset, side)


def build_backend(config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    """What `[backend]` names, made ready for batches of up to `batch` images."""
    return _pick("backend.name", config.backend.name, BACKENDS)(config, network, batch, threads)


def build_optimizer(config: RunConfig, network: Network) -> Optimizer:
    """The optimizer of `[optimizer]` for the packed vectors of `network`."""
    build = _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)
    if _facts(config).along_trees:
        build = factories.sgd_by_layer
    return build(config, network, _kernels(config))


def build_method(
    config: RunConfig, workers: int, learning_rate: Callable[[int], float] | None = None
) -> Method:
    """The method of `[exchange]` for that many workers.

    Its learning rate is that of the steps, from 0, or always that which the policy starts from.
    """
    return _method(config, workers, _kernels(config), learning_rate)


def build_team(
    config: RunConfig,
    segment_fds: Sequence[int],
    rank: int,
    meeting_point: MeetingPoint | None = None,
) -> Team:
    """A worker's way to its peers: through the node's groups, or without any to itself alone.

    Where there are several nodes, their first workers meet at `meeting_point`; where exchanges go
    along trees, all do.
    """
    if _facts(config).along_trees:
        return _along_trees(config, segment_fds, rank, meeting_point)
    if not segment_fds:
        from knltrain.exchange.transports.loopback import Loopback

        method = plain_method(config, workers=1)
        return Loopback(network_size(config), method.rule.center_vectors, method.spares)
    from knltrain.exchange.transports.joining import join, join_across_nodes

    if meeting_point is not None:
        if plain_method(config, config.total_workers).schedule != "synchronous":
            return _alone_across_nodes(config, segment_fds, rank, meeting_point)
        node, local_rank = divmod(rank, int(config.workers))
        nodes, collective = config.total_nodes, None
        if local_rank == 0:
            collective = written_for_the_wire(
                config, factories.between_nodes(config, node, nodes, meeting_point)
            )
        limit = _patience_seconds(config)
        return join_across_nodes(segment_fds, local_rank, limit, node, nodes, collective)
    return join(segment_fds, rank, _patience_seconds(config))


def _along_trees(
    config: RunConfig, segment_fds: Sequence[int], rank: int, meeting_point: MeetingPoint | None
) -> Team:
    """A worker whose exchanges go along trees, as a rank of MPI, or alone."""
    from knltrain.exchange.transports.joining import join_for_trees
    from knltrain.exchange.transports.tree_team import TreeTeam

    if meeting_point is None:
        return TreeTeam.of_one()
    return _in_one_job(join_for_trees, config, segment_fds, rank, meeting_point)


def _alone_across_nodes(
    config: RunConfig, segment_fds: Sequence[int], rank: int, meeting_point: MeetingPoint
) -> Team:
    """A worker of those who come alone, or by the root of their group, to a center on all nodes.

    Who comes is a rank of MPI.
    """
    from knltrain.exchange.transports.joining import join_for_one_sided
    from knltrain.worker.synchronisation import MEETING_SECONDS

    come = partial(join_for_one_sided, longest_seconds=MEETING_SECONDS)
    return _in_one_job(come, config, segment_fds, rank, meeting_point)


def _in_one_job(
    join: Callable[[Sequence[int], int, int, JoinJob, float], Team],
    config: RunConfig,
    segment_fds: Sequence[int],
    rank: int,
    meeting_point: MeetingPoint,
) -> Team:
    """A worker of those who find each other at the meeting point, as ranks of one job of MPI."""
    from knltrain.communication.mpi.joining import join_mpi
    from knltrain.worker.synchronisation import MEETING_SECONDS

    def job(rank: int, ranks: int, check: Callable[[], None]) -> Any:
        from knltrain.communication.rendezvous.torch_store import TorchStore, meeting_store

        store = TorchStore(meeting_store(meeting_point, MEETING_SECONDS))
        return join_mpi(rank, ranks, store, MEETING_SECONDS, meeting_point.own_address, check)

    return join(segment_fds, rank, config.total_workers, job, _patience_seconds(config))


def written_for_the_wire(
    config: RunConfig, collective: NodeCollective, size: int | None = None
) -> NodeCollective:
    """The collective that sends vectors of `size` values as `exchange.wire_format` says."""
    size = network_size(config) if size is None else size
    wire_format = build_wire_format(config, size)
    if wire_format is None:
        return collective
    from knltrain.communication.internode.wire import Compressed

    return Compressed(collective, wire_format, size)


def build_wire_format(config: RunConfig, size: int) -> WireFormat | None:
    """What `exchange.wire_format` names; None for float32."""
    make = _pick("exchange.wire_format", config.exchange.wire_format, WIRE_FORMATS)
    return None if make is None else make(config, _kernels(config), size)


def _method(
    config: RunConfig,
    workers: int,
    kernels: Kernels,
    learning_rate: Callable[[int], float] | None,
) -> Method:
    _pick("exchange.method", config.exchange.method, BUILDERS)
    rate = learning_rate or (lambda _step: config.learning_rate.base)
    return build(MethodContext(config, workers, build_network(config), kernels, rate))


def _patience_seconds(config: RunConfig) -> float:
    """How long a worker may be late: so much in each step since all last met, up to a meeting's."""
    from knltrain.worker.synchronisation import MEETING_SECONDS

    limit, period = config.exchange.timeout_seconds, config.exchange.communication_period
    return min(limit * period, max(limit, MEETING_SECONDS))


def _facts(config: RunConfig) -> MethodFacts:
    return _pick("exchange.method", config.exchange.method, METHODS)


def _kernels(config: RunConfig) -> Kernels:
    return _pick("backend.implementation", config.backend.implementation, KERNELS)()


def _pick(key: str, name: str, known: Mapping[str, Choice]) -> Choice:
    try:
        return known[name]
    except KeyError:
        raise ConfigError(unknown_name(key, name, known)) from None
