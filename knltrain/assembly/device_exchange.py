"""Exchanges between the devices of a node, where `exchange.within_nodes` asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knltrain.assembly.own_backend import with_own_backend
from knltrain.config import RunConfig
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.transports.team import Team
    from knltrain.exchange.transports.transport import CollectiveTransport
    from knltrain.vectors import VectorSpace

_FITTING = (
    "'segment', or a method whose workers average all at once, such as 'sync_sgd', 'sync_easgd2' "
    "or 'shmcaffe_h'"
)


def check_within_nodes(config: RunConfig, method: Method) -> None:
    """Raise ConfigError unless workers of a node can exchange between their devices."""
    from knltrain.communication.device_sum import check_library

    where, known = "exchange.within_nodes = 'device'", dict[str, int]()
    for rank in range(int(config.workers)):
        device = with_own_backend(config, rank).backend.device
        if device == "cpu":
            raise ConfigError(
                f"{where}, but worker {rank} computes on the host: expected 'segment', or "
                "backend.device = 'cuda' for all workers"
            )
        if device in known:
            raise ConfigError(
                f"{where}, but workers {known[device]} and {rank} share the device '{device}', "
                "which its library refuses: expected 'segment', or backend.device = 'cuda' and "
                "placement.gpus = 'auto', one for each worker"
            )
        known[device] = rank
    kinds = {device.partition(":")[0] for device in known}
    if len(kinds) > 1:
        raise ConfigError(
            f"{where} with devices of the kinds {' and '.join(sorted(kinds))}, which no library "
            "adds up: expected 'segment'"
        )
    check_library(*kinds)
    check_method_on_devices(config, method)


def check_method_on_devices(config: RunConfig, method: Method) -> None:
    """Raise ConfigError unless workers can exchange by a method between their devices."""
    where = "exchange.within_nodes = 'device'"
    if method.levels is None and config.total_nodes > 1:
        raise ConfigError(
            f"{where} on {config.total_nodes} computers: expected 'segment', or a method of groups "
            "whose workers are those of a computer, such as 'shmcaffe_h'"
        )
    exchange = config.exchange
    for key in ("emulated_link_gbits", "packing"):
        if (value := getattr(exchange, key)) != type(exchange).model_fields[key].default:
            raise ConfigError(f"{where} with exchange.{key} = {value!r}: leave one of them out")
    inside = method if method.levels is None else method.levels.inside
    strategies = method.strategy.exchanges_on_devices and inside.strategy.exchanges_on_devices
    if not (strategies and inside.rule.computes_on_devices and len(inside.parts) == 1):
        raise ConfigError(f"{where} with method {method.name}: expected {_FITTING}")


def exchanging_on_devices(config: RunConfig, team: Team, space: VectorSpace) -> Team:
    """The team, with exchanges of a node's workers, or of a group, on devices."""
    from knltrain.exchange.transports.grouped_team import GroupedTeam
    from knltrain.exchange.transports.transport import CollectiveTransport

    inside = team.inside if isinstance(team, GroupedTeam) else team
    assert isinstance(inside, CollectiveTransport)
    if inside.workers == 1:
        return team
    found = _on_devices(config, inside, space)
    if not isinstance(team, GroupedTeam):
        return found
    team.inside = team.group = found
    return team


def _on_devices(
    config: RunConfig, inside: CollectiveTransport, space: VectorSpace
) -> CollectiveTransport:
    import numpy as np

    from knltrain.assembly.teams import patience_seconds
    from knltrain.backends.torch.device_sums import MirroredSums
    from knltrain.backends.torch.mirrors import Mirrors
    from knltrain.communication.device_sum import TensorSum
    from knltrain.exchange.transports.on_devices import OnDevices
    from knltrain.worker.termination import MEETING_SECONDS

    if not isinstance(space, Mirrors):
        raise ConfigError(
            "exchange.within_nodes = 'device', but not all parameters are in float32 on one device "
            "that is not the host: expected 'segment', or a model that was brought there"
        )
    inside.barrier(MEETING_SECONDS)  # another one may still read images
    _check_apart(inside, space.device)

    def tell(number: int) -> int:
        return int(inside.all_sum(np.array([number], np.float64))[0])

    limit = patience_seconds(config)
    sums = TensorSum(space.device.type, inside.rank, inside.workers, tell, limit)
    return OnDevices(inside, space, MirroredSums(space, sums))


def _check_apart(inside: CollectiveTransport, device: torch.device) -> None:
    """Refuse workers of one device, which its library would refuse or wait for (collective)."""
    from knltrain.backends.torch.devices import identity_of
    from knltrain.exchange.transports.team import of_all_workers

    own = identity_of(device)
    found = of_all_workers(inside, [own])[:, 0].tolist()
    alike = [rank for rank, each in enumerate(found) if each == own]
    if device.type != "cpu" and len(alike) > 1:
        raise ConfigError(
            f"exchange.within_nodes = 'device', but workers {alike[0]} and {alike[1]} of this node "
            f"have the same device, {device}: expected one for each, or 'segment'"
        )
