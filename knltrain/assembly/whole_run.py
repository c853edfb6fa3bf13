"""Checks a run before any of its workers is started, and computes its length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from affinity import Need
from knltrain.assembly.losses import check_labels
from knltrain.assembly.methods import strategy_of
from knltrain.assembly.names import DATASETS, build_dataset, build_network, plain_method
from knltrain.config import RunConfig
from knltrain.errors import CheckpointError, ConfigError
from knltrain.network.network import Network
from knltrain.network.zoo.networks import NETWORKS

if TYPE_CHECKING:
    from knltrain.checkpoint.contents import RunIdentity
    from knltrain.checkpoint.reader import Checkpoint
    from knltrain.data.contents import DataContents
    from knltrain.data.dataset import Dataset
    from knltrain.data.model_preprocessing import ModelPreprocessing
    from knltrain.exchange.strategies.method import Method
    from knltrain.input.batch_shape import BatchShape
    from knltrain.network.parameters import ParameterVector
    from knltrain.optimizers.optimizer import StateArray


@dataclass(frozen=True, slots=True)
class RunSize:
    """The length of a run, and the memory of each of its workers.

    `notes` tell the user what the run will not do. `batch` is what each worker takes at a time,
    `preprocessing` how pictures become images.
    """

    total_steps: int
    needs: tuple[Need, ...]
    preprocessing: ModelPreprocessing
    notes: tuple[str, ...] = ()
    data: DataContents | None = None
    batch: BatchShape | None = None


def check_run(config: RunConfig, keep: Callable[[Dataset], None] | None = None) -> RunSize:
    """The size of a run whose workers are decided.

    `keep` gets the data set once it is found to fit. Raises the `ConfigError` or `DataError` that
    its workers would raise.
    """
    from knltrain.assembly.needs import memory_needs
    from knltrain.assembly.preprocessing import model_preprocessing
    from knltrain.backends.cpu.micro_batch import check_micro_batch
    from knltrain.data.order import ShardedBatches
    from knltrain.input.batch_shape import BatchShape

    network, workers = build_network(config), config.total_workers
    dataset = build_dataset(config, copies=1 if keep is None else 2)
    check_fit(network, dataset)
    check_labels(config, network, dataset)
    method, chosen, shares = plain_method(config, workers), config.train, config.images_of_each
    sharded = partial(ShardedBatches, iter_size=chosen.iter_size, shares=shares)
    batches = sharded(dataset.train, chosen.batch, 0, workers, config.seed)
    images, micro_batch = max(shares), config.backend.micro_batch
    check_micro_batch(network, chosen.batch if config.balance.may_change else images, micro_batch)
    at_a_time = 0 if micro_batch == "auto" else micro_batch
    steps = total_steps(config, batches.steps_per_epoch)
    check_first_step(config, steps)
    _check_choices(config, network, steps)
    check_period(method, steps)
    check_across_nodes(config, method)
    check_wire_format(config, method)
    method.strategy.check_run(method, config)
    unequal = _checked_unequal(config, method)
    if keep is not None:
        keep(dataset)
    batch = BatchShape.of(dataset.train, images)
    ahead = config.data.batches_ahead if config.placement.data_cores else 0
    needs = memory_needs(
        network,
        dataset,
        images,
        at_a_time,
        config.optimizer.name,
        exchange_vectors=(
            method.strategy.vectors(method)
            + vectors_between_nodes(config, method)
            + (config.exchange.within_nodes == "device")  # a contribution
        ),
        iter_size=chosen.iter_size,
        workers=int(config.workers),
        batches_ahead_bytes=ahead * batch.bytes,
        nodes=config.total_nodes if config.data.memory == "distributed" else 1,
        value_bytes=2 if config.backend.keeps_bfloat16 else 4,
    )
    told = unequal, on_one_node(config), left_over(method, steps), idle_cores(config, method)
    preprocessing = model_preprocessing(config.data, dataset)
    notes = tuple(chain(dataset.notes, *told))
    return RunSize(steps, needs, preprocessing, notes, dataset.contents, batch)


def _checked_unequal(config: RunConfig, method: Method) -> list[str]:
    """Refuse devices and shares of a batch that cannot be; return what to know of the others."""
    notes = []
    if not config.backend.is_plain or config.backend.precision != "float32":
        from knltrain.assembly.own_backend import check_devices

        notes = check_devices(config)
    if config.exchange.within_nodes != "segment":
        from knltrain.assembly.device_exchange import check_within_nodes

        check_within_nodes(config, method)
    if not config.balance.is_equal:
        from knltrain.assembly.balancing import check_balance

        check_balance(config, method)
    if config.balance.has_paces:
        from knltrain.assembly.paces import check_paces

        check_paces(config, method)
    return notes


def starting_parameters(
    config: RunConfig, network: Network, initial: tuple[int, int] | None = None
) -> ParameterVector:
    """The parameters that a new run starts from: those of a file, or drawn by the seed.

    `initial` tells where they are drawn (`InitialParameters.fds`); then they are read-only. Raises
    NetworkError for a file that does not fit.
    """
    from knltrain.network.parameters import ParameterVector

    if initial is not None:
        from knltrain.assembly.initial_parameters import drawn_elsewhere

        if (drawn := drawn_elsewhere(network, *initial)) is not None:
            return drawn
    parameters = ParameterVector(network)
    parameters.initialise(config.seed)
    _load_weights(config, parameters)
    return parameters


def _check_choices(config: RunConfig, network: Network, steps: int) -> None:
    """Refuse algorithms of layers that are not there, and a profile of more steps: ConfigError."""
    if config.backend.algorithms:
        from knltrain.backends.cpu.algorithms import asked_algorithms

        asked_algorithms(network, config.backend.algorithms)
    if config.train.profile_steps:
        from knltrain.profile.window import check_window

        check_window(config.train.profile_steps, steps - config.train.first_step)
        if config.balance.may_change:
            raise ConfigError(
                f"train.profile_steps = {config.train.profile_steps} with shares of a batch that "
                "may change, and with them what a stage costs: expected balance.shares in numbers"
            )


def check_weights(config: RunConfig) -> tuple[str, ...]:
    """Refuse files of weights and state that do not fit, before anything is started; return notes.

    ConfigError or NetworkError.
    """
    if config.network.weights is None and config.train.optimizer_state is None:
        return ()
    from knltrain.network.parameters import ParameterVector

    network = build_network(config)
    starting_state(config, network)
    return _load_weights(config, ParameterVector(network))


def starting_state(config: RunConfig, network: Network) -> dict[str, StateArray]:
    """The optimizer's state that a new run starts with: none, or that of a file.

    Raises ConfigError or NetworkError for a file that does not fit.
    """
    chosen = config.train
    if chosen.optimizer_state is None:
        return {}
    import numpy as np

    from knltrain.interchange.optimizer_file import read_optimizer_file

    where = f"train.optimizer_state = '{chosen.optimizer_state}'"
    if config.network.weights is None:
        raise ConfigError(f"{where} without weights: expected network.weights, those of that step")
    if strategy_of(config).steps_at_master:
        raise ConfigError(
            f"{where}: exchange.method = '{config.exchange.method}' steps at one worker for "
            "all: expected another, as sync_sgd"
        )
    found = read_optimizer_file(Path(chosen.optimizer_state), network)
    if found.optimizer != config.optimizer.name:
        raise ConfigError(
            f"{where} is of optimizer '{found.optimizer}': expected that of optimizer.name, "
            f"'{config.optimizer.name}'"
        )
    vectors: dict[str, StateArray] = {name: each.packed for name, each in found.vectors.items()}
    return {**vectors, "steps": np.array([chosen.first_step], np.int64)}


def _load_weights(config: RunConfig, parameters: ParameterVector) -> tuple[str, ...]:
    chosen = config.network
    if chosen.weights is None:
        return ()
    from knltrain.interchange.weights import load_weights

    return load_weights(parameters, chosen.weights, chosen.new_layers)


def check_period(method: Method, steps: int) -> None:
    """Refuse a run that would end before its first exchange: `ConfigError`."""
    if not method.meets_seldom or method.every_step_until:
        return
    assert method.period is not None
    if method.period > steps:
        raise ConfigError(
            f"exchange.communication_period = {method.period}: {method.name} would not exchange "
            f"once in {steps} steps, and its model would be that which the run starts from; "
            f"expected at most {steps}, or a run of {method.period} steps or more"
        )


def check_across_nodes(config: RunConfig, method: Method) -> None:
    """Refuse settings that workers on several computers do not support: `ConfigError`."""
    if config.total_nodes == 1 or method.period is None:
        return
    if config.exchange.emulated_link_gbits is not None:
        raise ConfigError(
            f"exchange.emulated_link_gbits = {config.exchange.emulated_link_gbits}: there are "
            f"{config.total_nodes} computers with a real link between them: leave it out"
        )


def check_wire_format(config: RunConfig, method: Method) -> None:
    """Refuse a wire format where nothing is sent in it: `ConfigError`."""
    chosen = config.exchange.wire_format
    if chosen == "float32":
        return
    if config.total_nodes == 1:
        raise ConfigError(
            f"exchange.wire_format = '{chosen}' on 1 computer, where workers share memory and send "
            "nothing: expected a run on several computers (a launcher, or nodes = 2), or 'float32'"
        )
    if method.period is None:
        raise ConfigError(
            f"exchange.wire_format = '{chosen}': {method.name} never exchanges: expected 'float32'"
        )


def vectors_between_nodes(config: RunConfig, method: Method) -> int:
    """Packed vectors for exchanges between nodes: a sum, its residual, and the encoded message."""
    if config.total_nodes == 1:
        return 0
    if method.visits_center:
        # What is sent, a copy of all vectors of the center, and at most all of these themselves.
        # Encoded: a residual, both messages, and the server's shard with its own messages.
        encoded = 0 if config.exchange.wire_format == "float32" else 4
        return 1 + 2 * method.rule.center_vectors + encoded
    if config.exchange.between_nodes == "gaspi":
        from knltrain.communication.internode.gaspi_collective import slot_vectors

        return 1 + slot_vectors(config.exchange.all_reduce, config.total_nodes)
    return 1 if config.exchange.wire_format == "float32" else 3


def left_over(method: Method, steps: int) -> list[str]:
    """Warn of steps after the last exchange, which are not in the model."""
    if not method.meets_seldom:
        return []
    assert method.period is not None
    rest = 0 if steps <= method.every_step_until else steps % method.period
    if not rest:
        return []
    return [
        f"exchange.communication_period = {method.period}: the last {rest} of {steps} steps come "
        "after the last exchange, and are not in the model; a multiple of the period has them all"
    ]


def on_one_node(config: RunConfig) -> list[str]:
    """Warn of a data set that is to be distributed to one computer."""
    if config.data.memory == "node" or config.total_nodes > 1:
        return []
    return ["data.memory = 'distributed': on one computer it is as 'node'"]


def idle_cores(config: RunConfig, method: Method) -> list[str]:
    """Warn of cores kept for exchanges where none runs beside computing."""
    cores = config.placement.communication_cores
    if not cores or method.strategy.overlaps(method):
        return []
    return [
        f"placement.communication_cores = {cores}: {method.name} exchanges between computing, so "
        "that these stay idle; methods that exchange meanwhile use them, such as sync_easgd3, "
        "layerwise_sgd, seasgd and streaming_diloco"
    ]


def check_resumable(
    config: RunConfig,
    run_folder: Path,
    total_steps: int,
    data: DataContents | None = None,
    accepts_other_data: bool = False,
    nodes_before: int | None = None,
) -> list[str]:
    """Refuse to resume a run that cannot be: `CheckpointError` or `ConfigError`; return notes.

    Damaged checkpoints are set aside only if the run can be resumed, so that the newest is whole
    afterwards. `data` are the contents of the data set now; `nodes_before` are those that the run
    had, where they may be others now.
    """
    from knltrain.checkpoint.newest import newest_whole, set_aside
    from knltrain.checkpoint.reader import check_identity, check_nodes, load_checkpoint

    folder, damaged = newest_whole(run_folder)
    if folder is None:
        raise _nothing_to_resume(run_folder)
    identity = identity_of(config, build_network(config), config.total_workers)
    checkpoint = load_checkpoint(folder, identity.network)
    check_identity(checkpoint, identity)
    if nodes_before is not None:
        check_nodes(checkpoint, nodes_before, config.total_nodes)
    check_length(checkpoint.step, total_steps)
    notes = check_data(checkpoint, data, accepts_other_data)
    return [*set_aside(damaged, folder), *notes]


def check_data(
    checkpoint: Checkpoint, data: DataContents | None, accepts_other: bool = False
) -> list[str]:
    """Refuse other `data` than the run has learned from, unless accepted: `CheckpointError`.

    Returns notes on accepted differences, and on what cannot be checked.
    """
    known = checkpoint.data
    if known is None or data is None:
        return [
            f"{checkpoint.folder} does not tell which data the run has learned from: whether they "
            "are the same now is not checked"
        ]
    if known.same_as(data):
        return []
    if accepts_other:
        return [f"--accept-other-data: the run has learned from {known}, and now takes {data}"]
    ways = ["--accept-other-data to take what is there now"]
    if known.name in DATASETS and DATASETS[known.name].in_root:
        ways.insert(0, "the folder of the same files by --set data.root=FOLDER")
    elif known.name != data.name:
        ways.insert(0, f"the same data by --set data.name={known.name}")
    raise CheckpointError(
        f"{checkpoint.folder}: the run has learned from {known}, but now there is {data}: give "
        f"{', or '.join(ways)}"
    )


def check_classes(
    kept: ModelPreprocessing | None, now: ModelPreprocessing | None, accepts_other: bool = False
) -> list[str]:
    """Refuse to go on with other classes than the run began with: `CheckpointError`.

    Their order counts, too: an output would get another meaning. Returns notes on those that are
    accepted with other data, whose pictures keep the run's preprocessing: no name that is known has
    moved.
    """
    if kept is None or now is None or kept.class_names == now.class_names:
        return []
    from knltrain.data.relabelled import told

    before, after = told(kept.class_names), told(now.class_names)
    known = {name: place for place, name in enumerate(kept.class_names)}
    stays = all(known.get(name, place) == place for place, name in enumerate(now.class_names))
    if accepts_other and stays:
        return [f"--accept-other-data: the classes were {before}, and are now {after}"]
    raise CheckpointError(
        f"the run has learned classes in the order {before}, but now they are {after}: give a file "
        "with the names in the run's order as data.class_names, or start a new run"
    )


def check_fit(network: Network, dataset: Dataset) -> None:
    """Refuse a data set whose images or classes do not fit `network`: `ConfigError`."""
    image, classes = dataset.train.image_shape, (dataset.classes,)
    if (image, classes) == (network.input_shape, network.output_shape):
        return
    ways = ["choose another data.name or network.name"]
    source = DATASETS.get(dataset.name)
    if source is not None and "channels" in source.takes and image[2] != network.input_shape[2]:
        ways.append(f"set data.channels = {network.input_shape[2]}")
    if image[2:] == network.input_shape[2:] and image != network.input_shape:
        ways.append(f"set data.side_pixels = {network.input_shape[0]}")
    if classes != network.output_shape:
        zoo = network.name in NETWORKS
        way = "set network.classes = {}" if zoo else "give the network {} outputs"
        ways.append(way.format(dataset.classes))
    raise ConfigError(
        f"data set {dataset.name!r} has images (H, W, C) = {image} in {dataset.classes} classes, "
        f"but network {network.name!r} takes {network.input_shape} and has outputs "
        f"{network.output_shape}: {', or '.join(ways)}"
    )


def total_steps(config: RunConfig, steps_per_epoch: int) -> int:
    """Length of the run in steps, from train.steps or train.epochs."""
    return config.train.steps or (config.train.epochs or 0) * steps_per_epoch


def check_first_step(config: RunConfig, total_steps: int) -> None:
    """Refuse a new run that would be at its end: `ConfigError`."""
    first = config.train.first_step
    if first >= total_steps:
        raise ConfigError(
            f"train.first_step = {first}: the run is to end after {total_steps} steps; expected "
            "fewer, or more train.steps"
        )


def check_length(done_steps: int, total_steps: int) -> None:
    """Refuse to end a run before its current step: `ConfigError`."""
    if done_steps > total_steps:
        raise ConfigError(
            f"the run is to end after {total_steps} steps, but its checkpoint is already at step "
            f"{done_steps}: raise train.epochs or train.steps"
        )


def identity_of(
    config: RunConfig, network: Network, workers: int, data: DataContents | None = None
) -> RunIdentity:
    """The identity of the run in its checkpoints."""
    from knltrain.checkpoint.contents import RunIdentity

    return RunIdentity(network, workers, config.exchange.method, config.seed, data)


def newest_checkpoint(run_folder: Path, network: Network) -> Checkpoint:
    """The checkpoint to resume from; `CheckpointError` if there is none or it is damaged."""
    from knltrain.checkpoint.folders import latest_checkpoint
    from knltrain.checkpoint.reader import load_checkpoint

    folder = latest_checkpoint(run_folder)
    if folder is None:
        raise _nothing_to_resume(run_folder)
    return load_checkpoint(folder, network)


def _nothing_to_resume(run_folder: Path) -> CheckpointError:
    return CheckpointError(
        f"'{run_folder}' has no checkpoint to resume from: start a new run, with "
        "checkpoint.every_epochs above 0 if it is to be resumable before its end"
    )
