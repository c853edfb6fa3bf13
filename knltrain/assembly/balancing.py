"""Builds what shares a batch out among workers: first shares, backends, and the observer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from knltrain.assembly.names import build_backend, build_network
from knltrain.config import RunConfig
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend
    from knltrain.balance.record import SharesFrom
    from knltrain.balance.shares import Cost
    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.transports.team import Team
    from knltrain.network.network import Network
    from knltrain.vectors import VectorSpace
    from knltrain.worker.observer import Observer


class Balance(NamedTuple):
    """The shares that a run begins with; `costs` are known where they were measured."""

    shares: tuple[int, ...]
    costs: tuple[Cost, ...] = ()
    recorded: tuple[SharesFrom, ...] = ()

    def most_images(self, rank: int) -> int:
        """The largest share of a worker that is known."""
        return max(self.shares[rank], *(each.images[rank] for each in self.recorded), 0)


def check_balance(config: RunConfig, method: Method) -> None:
    """Refuse shares that the method, or what makes batches ahead, cannot have: ConfigError."""
    chosen, shares = config.balance, config.balance.shares
    if isinstance(shares, tuple) and not all(shares) and not method.may_idle:
        raise ConfigError(
            f"balance.shares = {list(shares)} with {method.name}: a worker without images would "
            "count like the others; expected images for each, or a method that exchanges the "
            "gradients of all in every step, as 'sync_sgd'"
        )
    if not chosen.may_change:
        return
    batch, workers = config.train.batch, config.total_workers
    if chosen.shares == "fitted" and not method.may_idle and batch < workers:
        raise ConfigError(
            f"train.batch = {batch} with {workers} workers: expected an image for each at least, "
            f"since with {method.name} all count alike"
        )
    if chosen.replay is not None:
        _check_replay(config, method, _recorded(config))
    key = f"balance.replay = '{chosen.replay}'" if chosen.replay else "balance.shares = 'fitted'"
    if config.placement.data_cores:
        raise ConfigError(
            f"{key} with placement.data_cores = {config.placement.data_cores}: a data pool makes "
            "batches ahead, whose sizes must be known; expected data_cores = 0, or shares in "
            "numbers"
        )
    if config.data.memory == "distributed":
        raise ConfigError(
            f"{key} with data.memory = 'distributed': pictures are fetched ahead, and whose they "
            "are must be known; expected data.memory = 'node', or shares in numbers"
        )


def _check_replay(config: RunConfig, method: Method, recorded: Sequence[SharesFrom]) -> None:
    where, first = f"balance.replay = '{config.balance.replay}'", config.train.first_step
    if recorded[0].step > first:
        raise ConfigError(
            f"{where}: begins with step {recorded[0].step}, this run with {first}; expected the "
            "shares of a run that begins no later"
        )
    if method.comes_at_any_time and len(recorded) > 1:
        raise ConfigError(
            f"{where}: has {len(recorded)} rows, but with {method.name} workers are steps apart, "
            "and keep their first shares; expected one row"
        )
    if not method.may_idle and not all(images for each in recorded for images in each.images):
        raise ConfigError(
            f"{where}: has workers without images, which would count like the others with "
            f"{method.name}; expected a run of such a method, or 'sync_sgd'"
        )


def first_balance(
    config: RunConfig, team: Team, method: Method, label_shape: tuple[int, ...], threads: int
) -> Balance:
    """The shares of the first step (collective where they are fitted)."""
    from knltrain.balance.record import images_at

    chosen = config.balance
    if chosen.replay is not None:
        recorded = _recorded(config)
        return Balance(images_at(recorded, config.train.first_step), (), recorded)
    if chosen.shares != "fitted":
        return Balance(config.images_of_each)
    return _fitted(config, team, method, label_shape, threads)


def build_balanced_backend(
    config: RunConfig,
    network: Network,
    images: int,
    threads: int,
    rank: int,
    space: VectorSpace | None = None,
) -> Backend:
    """The backend of a worker whose batch may grow, or whose speed is emulated."""
    chosen, images = config.balance, max(1, images)
    backend: Backend
    if chosen.shares == "fitted" and config.backend.name == "cpu":  # PyTorch takes any batch
        from knltrain.backends.growing import GrowingBackend

        build = partial(build_backend, config, network, threads=threads)
        backend = GrowingBackend(lambda images: build(batch=images), images)
    else:
        backend = build_backend(config, network, images, threads, space)
    if chosen.emulated_images_per_second is None:
        return backend
    from knltrain.backends.paced import PacedBackend

    return PacedBackend(backend, chosen.emulated_images_per_second[rank])


def balances(
    config: RunConfig, run_folder: Path, balance: Balance, method: Method
) -> list[Observer]:
    """Records the shares, and changes them as `[balance]` says; nothing where they are equal."""
    chosen = config.balance
    if chosen.is_equal:
        return []
    from knltrain.balance.shares import Cost
    from knltrain.worker.balancing import FittingObserver, ReplayingObserver

    if balance.recorded:
        return [ReplayingObserver(run_folder, balance.recorded)]
    costs = balance.costs or (Cost(0.0, 0.0),) * len(balance.shares)
    # Workers that come at any time do not wait for the slowest one's gradient.
    is_refitted = chosen.shares == "fitted" and not method.comes_at_any_time
    steps = chosen.refit_steps if is_refitted else 0
    times = chosen.granule, steps, config.train.iter_size
    return [FittingObserver(run_folder, balance.shares, costs, *times)]


def _fitted(
    config: RunConfig, team: Team, method: Method, label_shape: tuple[int, ...], threads: int
) -> Balance:
    from knltrain.balance.shares import fitted_shares

    costs = measured_costs(config, team, label_shape, threads)
    batch, granule = config.train.batch, config.balance.granule
    return Balance(fitted_shares(costs, batch, granule, method.may_idle), costs)


def measured_costs(
    config: RunConfig, team: Team, label_shape: tuple[int, ...], threads: int
) -> tuple[Cost, ...]:
    """Measure all workers at once, as they share memory and caches in a step."""
    from knltrain.balance.measuring import measured_cost, random_batch
    from knltrain.balance.shares import Cost
    from knltrain.exchange.transports.team import of_all_workers
    from knltrain.network.parameters import ParameterVector
    from knltrain.worker.termination import MEETING_SECONDS

    network, batch = build_network(config), config.train.batch
    small = min(config.balance.granule, batch)
    large = max(small, config.images_of_each[0])
    backend = build_balanced_backend(config, network, large, threads, team.rank)
    parameters = ParameterVector(network)
    parameters.initialise(config.seed)
    batches = [random_batch(images, network.input_shape, label_shape) for images in (small, large)]
    try:
        backend.rehearse(batches[-1], parameters.packed, parameters.packed.copy())
        team.barrier(MEETING_SECONDS)
        own = measured_cost(backend, parameters.packed, batches)
    finally:
        backend.close()
    team.barrier(MEETING_SECONDS)  # a slow worker may be far behind the others
    found = of_all_workers(team, [own.overhead_seconds, own.image_seconds])
    return tuple(Cost(float(overhead), float(image)) for overhead, image in found)


def _recorded(config: RunConfig) -> tuple[SharesFrom, ...]:
    from knltrain.balance.record import read_shares

    assert config.balance.replay is not None
    path = Path(config.balance.replay)
    return read_shares(path, config.train.batch, config.total_workers)
