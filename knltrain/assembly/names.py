"""Registries of the names in a configuration, and functions that build parts of a run by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from knltrain.assembly import factories
from knltrain.assembly.factories import DECODING_KEYS, DataSource, Kernels
from knltrain.assembly.methods import build, strategy_of
from knltrain.assembly.resolve import fitted_data, fitted_network
from knltrain.assembly.rules import MethodContext
from knltrain.config import DataConfig, RunConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError, unknown_name
from knltrain.network.layers import Multipliers
from knltrain.network.network import Network
from knltrain.network.parameter_groups import ParameterSetting
from knltrain.network.zoo.networks import NETWORKS

if TYPE_CHECKING:
    from knltrain.assembly.factories import MakesBackend, MakesOptimizer
    from knltrain.backends.backend import Backend
    from knltrain.communication.internode.collective import NodeCollective
    from knltrain.communication.internode.wire.wire_format import CenterFormats, WireFormat
    from knltrain.data.dataset import Dataset, Halves
    from knltrain.data.extent import Extent
    from knltrain.exchange.strategies.method import Method
    from knltrain.network.layer_slices import PackedLayers
    from knltrain.optimizers.optimizer import Optimizer
    from knltrain.vectors import VectorSpace

Choice = TypeVar("Choice")

DATASETS: dict[str, DataSource] = {
    "digits": DataSource(factories.digits_extent, factories.digits),
    "mnist": DataSource(factories.mnist_extent, factories.mnist, in_root=True),
    "mnist-t10k": DataSource(factories.mnist_t10k_extent, factories.mnist_t10k, in_root=True),
    "synthetic": DataSource(factories.synthetic_extent, factories.synthetic),
    "synthetic-labels": DataSource(factories.synthetic_labels_extent, factories.synthetic_labels),
    "random": DataSource(
        factories.random_extent, factories.random, takes=("image", "classes"), stands_in=True
    ),
    "idx": factories.reader("idx", "idx", "transposed"),
    "cifar10": factories.reader("cifar10", "cifar"),
    "cifar100": factories.reader("cifar100", "cifar", "label"),
    "numpy": factories.reader("numpy", "numpy_files", "channel_order"),
    "lmdb": factories.reader("lmdb", "lmdb", "channel_order", *DECODING_KEYS),
    "hdf5": factories.reader("hdf5", "hdf5", "channel_order", "label"),
    "parquet": factories.reader("parquet", "parquet", "label", *DECODING_KEYS),
    "folder": factories.reader(
        "folder", "folder", "follow_links", *DECODING_KEYS, counts_labels=False
    ),
    "list": factories.reader("list", "list_file", "follow_links", *DECODING_KEYS),
    "tar": factories.reader("tar", "tar", *DECODING_KEYS),
    "packed": DataSource(None, factories.packed, in_root=True, takes=DECODING_KEYS),
}
BACKENDS: dict[str, MakesBackend] = {
    "cpu": factories.cpu_backend,
    "torch": factories.torch_backend,
}
OPTIMIZERS: dict[str, MakesOptimizer] = {
    name: factories.optimizer(name)
    for name in ("sgd", "lars", "adamw", "adam", "adagrad", "rmsprop", "adadelta")
}
# Optimizers and exchange rules run Numba's kernels beside all that computes networks.
KERNELS: dict[str, Callable[[], Kernels]] = {
    "numba": factories.numba_kernels,
    "onednn": factories.numba_kernels,
    "reference": factories.reference_kernels,
}
WIRE_FORMATS: dict[str, Callable[[RunConfig, Kernels, int], WireFormat] | None] = {
    "float32": None,  # as the collective has it
    "bfloat16": factories.bfloat16,
    "int8": factories.int8,
    "float4": factories.float4,
    "top_k": factories.top_k,
}


def check_names(config: RunConfig) -> None:
    """Refuse unknown names before any process is started: `ConfigError`."""
    if config.network.module is None and not config.network.name.endswith(".json"):
        _pick("network.name", config.network.name, NETWORKS)
    _check_data_keys(config.data)
    _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)
    _pick("exchange.method", config.exchange.method, METHODS)
    _pick("backend.name", config.backend.name, BACKENDS)
    for number, some in enumerate(config.backend.workers):
        where, own = f"backend.workers[{number}]", config.backend.of(some)
        _pick(f"{where}.name", own.name, BACKENDS)
        _pick(f"{where}.implementation", own.implementation, KERNELS)
    _pick("backend.implementation", config.backend.implementation, KERNELS)
    if config.backend.engine == "ipex":
        from knltrain.backends.torch.installed import check_ipex

        check_ipex()
    elif config.backend.engine == "compile":
        from knltrain.backends.torch.installed import check_compiler

        check_compiler(config.backend.device)


def plain_method(config: RunConfig, workers: int) -> Method:
    """The method with kernels that need no compiler; ConfigError if its settings are impossible."""
    return _method(config, workers, factories.reference_kernels(), None)


def network_size(config: RunConfig) -> int:
    """Length of the packed vectors in float32 values, which sizes the shared group."""
    return build_network(config).packed_size


def build_network(config: RunConfig) -> Network:
    """The network that `network.name` stands for, with outputs for `network.classes`.

    One of the zoo takes images of `data.side_pixels`.
    Its auxiliary outputs have the weights of `[loss]`, its parameters the multipliers of
    `[network]`, or are frozen by it. Raises ConfigError where weights are another number than the
    outputs, and for a `network.module` that was not imported.
    """
    chosen = config.network
    if chosen.module is not None:
        raise ConfigError(
            f"network.module = '{chosen.module}' was not imported, which `knltrain train` "
            "and `knltrain warmup` do: expected network.name, as the network.json of a run"
        )
    network = _with_weighted_outputs(fitted_network(config), config)
    settings = [
        ParameterSetting(
            "network.multipliers", each.pattern, Multipliers(each.learning_rate, each.weight_decay)
        )
        for each in chosen.multipliers
    ]
    settings += [
        ParameterSetting("network.frozen", pattern, Multipliers(0.0)) for pattern in chosen.frozen
    ]
    return replace(network, settings=tuple(settings)) if settings else network


def _with_weighted_outputs(network: Network, config: RunConfig) -> Network:
    weights, (main, *others) = config.loss.auxiliary_weights, network.outputs
    if weights is None:
        return network
    if len(weights) != len(others):
        raise ConfigError(
            f"loss.auxiliary_weights = {list(weights)}: network '{network.name}' has {len(others)} "
            "auxiliary outputs: expected a weight for each, or leave it out"
        )
    outputs = (replace(each, weight=new) for each, new in zip(others, weights, strict=True))
    return replace(network, outputs=(main, *outputs))


def image_shape_of(config: RunConfig) -> tuple[int, int, int]:
    """Shape (H,W,C) of the images of `[data]`; DataError if files are bad."""
    chosen = _data_of(config)
    return _extent(chosen).shape_with(chosen.side_pixels)


def label_shape_of(config: RunConfig) -> tuple[int, ...]:
    """Shape of a training label, which is not read: () of a class, (classes,) of targets.

    Labels of mixed images are targets.
    """
    if config.data.mixes:
        return build_network(config).output_shape
    return tested_label_shape_of(config)


def tested_label_shape_of(config: RunConfig) -> tuple[int, ...]:
    """Shape of a test label, which is not read: () of a class, (classes,) of targets."""
    return _extent(_data_of(config)).label_shape


def build_dataset(config: RunConfig, copies: int = 1) -> Dataset:
    """The images of `[data]`.

    Raises `DataError` if this computer cannot hold so many `copies`: before reading, where the size
    is known.
    """
    from knltrain.assembly.preprocessing import dataset_of
    from knltrain.data.extent import check_room
    from knltrain.data.mapped import bus_errors_told

    chosen = _data_of(config)
    with bus_errors_told():
        halves = read_halves(config, copies)
        extent = _known_extent(chosen)
        if extent is None:
            extent = _extent_of(halves, chosen.side_pixels)
            check_room(extent, chosen.name, copies - 1)
        shape = extent.shape_with(chosen.side_pixels)
        return dataset_of(config, halves, shape, build_kernels(config))


def read_halves(config: RunConfig, copies: int = 1) -> Halves:
    """The pictures of `[data]` as they are in their files; `ConfigError` or `DataError`.

    Where their size is known before they are read, there is to be room for so many copies.
    """
    from knltrain.data.extent import check_room

    _check_data_keys(config.data)
    chosen = _data_of(config)
    extent = _known_extent(chosen)
    if extent is not None:
        check_room(extent, chosen.name, copies)
    return DATASETS[chosen.name].load(chosen)


def with_decoding_of(data: DataConfig, channels: int, exif: bool) -> DataConfig:
    """`[data]` whose pictures are decoded to so many channels, where they are decoded at all."""
    source = _source_of(data)
    decoding = {"channels": channels, "exif": exif}
    return data.model_copy(update=decoding) if "channels" in source.takes else data


def _known_extent(chosen: DataConfig) -> Extent | None:
    """The size of what is to be read, where it is known before."""
    source = _source_of(chosen)
    if source.extent is None:
        return None
    return source.extent(chosen).first(chosen.train_images, chosen.test_images)


def _data_of(config: RunConfig) -> DataConfig:
    return fitted_data(config) if _source_of(config.data).stands_in else config.data


def _source_of(chosen: DataConfig) -> DataSource:
    return _pick("data.name", chosen.name, DATASETS)


def _extent(chosen: DataConfig) -> Extent:
    source = _source_of(chosen)
    if source.extent is not None:
        return source.extent(chosen)
    return _extent_of(source.load(chosen), chosen.side_pixels)


def _extent_of(halves: Halves, side: int | None) -> Extent:
    """The size of pictures that are opened, as they are or brought to `side` x `side` pixels."""
    from knltrain.data.extent import Extent

    train, test, shape = halves.train, halves.test, halves.train.image_shape
    if shape is None:
        height, width = (side, side) if side else train.size()
        shape = (height, width, train.channels)
    is_held = bool(train.held_bytes), bool(test.held_bytes)  # else no copies are made of them
    return Extent(len(train), len(test), shape, train.labels.shape[1:], held=is_held)


def _check_data_keys(chosen: DataConfig) -> None:
    """Refuse an unknown data set, and keys that it does not read: `ConfigError`."""
    source = _source_of(chosen)
    for key in () if source.stands_in else factories.OWN_KEYS:
        value = getattr(chosen, key)
        if key not in source.takes and value != type(chosen).model_fields[key].default:
            takers = [name for name, each in DATASETS.items() if key in each.takes]
            raise ConfigError(
                f"data.{key} = {value!r}: data.name = '{chosen.name}' does not read it, only "
                f"{', '.join(takers)}: leave it out"
            )


def build_space(config: RunConfig) -> VectorSpace:
    """Where `backend.device` computes with vectors."""
    from knltrain.vectors import HOST

    return HOST if config.backend.device == "cpu" else factories.mirrors_of(config)


def build_backend(
    config: RunConfig, network: Network, batch: int, threads: int, space: VectorSpace | None = None
) -> Backend:
    """The backend that `[backend]` names, ready for batches of up to `batch` images.

    Without the worker's `space` a device gets vectors for each call, and gives them back.
    """
    make = _pick("backend.name", config.backend.name, BACKENDS)
    return make(config, network, batch, threads, space)


def build_optimizer(
    config: RunConfig, network: Network, space: VectorSpace | None = None
) -> Optimizer:
    """The optimizer of `[optimizer]` for the packed vectors of `network`, which live in `space`."""
    from knltrain.vectors import HOST

    make = _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)
    if strategy_of(config).steps_at_master:  # rank 0 steps on the host, as layers come in
        from knltrain.assembly.optimizers import by_layer

        return by_layer(make, config, network, build_kernels(config))
    if space is not None and space is not HOST:
        return factories.device_optimizer(make, config, network, space)
    return make(config, network, build_kernels(config))


def build_method(
    config: RunConfig,
    workers: int,
    learning_rate: Callable[[int], float] | None = None,
    packed: PackedLayers | None = None,
) -> Method:
    """The method of `[exchange]` for that many workers.

    `learning_rate` takes the number of a step, from 0; without it the rate is always the policy's
    base rate. `packed` is what lies in the vectors, by default the configured network.
    """
    return _method(config, workers, build_kernels(config), learning_rate, packed)


def written_for_the_wire(
    config: RunConfig, collective: NodeCollective, size: int | None = None
) -> NodeCollective:
    """The collective with vectors of `size` values encoded as `exchange.wire_format` says."""
    size = network_size(config) if size is None else size
    wire_format = build_wire_format(config, size)
    if wire_format is None:
        return collective
    from knltrain.communication.internode.wire.compressed import CompressedCollective

    return CompressedCollective(collective, wire_format, size)


def build_wire_format(config: RunConfig, size: int) -> WireFormat | None:
    """The wire format that `exchange.wire_format` names; None for float32."""
    make = _pick("exchange.wire_format", config.exchange.wire_format, WIRE_FORMATS)
    return None if make is None else make(config, build_kernels(config), size)


def build_center_formats(config: RunConfig, size: int) -> CenterFormats | None:
    """How visits of a center on other nodes are written; None for float32.

    Contributions are, as `exchange.wire_format` says. The center is no difference: it is read as
    bfloat16, whatever the format.
    """
    added = build_wire_format(config, size)
    if added is None:
        return None
    from knltrain.communication.internode.wire.wire_format import CenterFormats

    return CenterFormats(added, factories.bfloat16(config, build_kernels(config), size))


def _method(
    config: RunConfig,
    workers: int,
    kernels: Kernels,
    learning_rate: Callable[[int], float] | None,
    packed: PackedLayers | None = None,
) -> Method:
    _pick("exchange.method", config.exchange.method, METHODS)
    rate = learning_rate or (lambda _step: config.learning_rate.base)
    return build(MethodContext(config, workers, packed or build_network(config), kernels, rate))


def build_kernels(config: RunConfig) -> Kernels:
    """The arithmetic beside networks that `backend.implementation` names."""
    return _pick("backend.implementation", config.backend.implementation, KERNELS)()


def _pick(key: str, name: str, known: Mapping[str, Choice]) -> Choice:
    try:
        return known[name]
    except KeyError:
        raise ConfigError(unknown_name(key, name, known)) from None
