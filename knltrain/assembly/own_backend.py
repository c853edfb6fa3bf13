"""The backend of one worker, where those of a run differ, or each has a device of its own."""

from __future__ import annotations

import platform
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from affinity import own_placement, parse_cpulist
from knltrain.config import RunConfig
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.config.backend_tables import BackendConfig


def with_own_backend(config: RunConfig, rank: int, host: str | None = None) -> RunConfig:
    """The configuration as worker `rank` on `host` has it, with its own backend and device.

    Raises ConfigError where there is no such device, or fewer than workers.
    """
    on_host = int(config.workers)
    first = rank // on_host * on_host
    ranks = range(first, first + on_host)
    host = platform.node() if host is None else host
    own, where = _backend_of(config, rank, host)
    # A device is one of its kind's, of which the workers before this one have taken theirs.
    alike = [each for each in ranks if _backend_of(config, each, host)[0].device == own.device]
    if own.device != "cpu":
        from knltrain.backends.torch.devices import device_named

        key, place = f"{where}.device", own_placement()
        if place is not None and place.visible_gpus:  # its own is the first that it sees
            device = device_named(own.device.partition(":")[0], key=key)
        else:
            turns, sharing = config.placement.gpus, len(alike)
            if turns != "auto" and turns < sharing:
                sharing, key = turns, f"placement.gpus = {turns}, {key}"
            device = device_named(own.device, taken(alike.index(rank), turns), sharing, key)
        own = own.model_copy(update={"device": str(device)})
    return config.model_copy(update={"backend": own})


def taken(position: int, turns: int | Literal["auto"]) -> int:
    """Which device the worker at a position takes: its own, or one of so many by turns.

    CaffeGPI's `-gpu auto` and `-gpu auto-k`: rank modulo k (arXiv 1706.00095).
    """
    return position if turns == "auto" else position % turns


def device_of(config: RunConfig, rank: int) -> str:
    """The device of worker `rank` on this computer, as the configuration names it."""
    return _backend_of(config, rank, platform.node())[0].device


def check_devices(config: RunConfig) -> list[str]:
    """Refuse, before a worker is started, what this computer has not; return notes.

    That is, devices, instructions for bfloat16 and AMX.

    Where backends differ on several computers each worker looks for its own. ConfigError, also for
    ranks that no worker has.
    """
    for number, some in enumerate(config.backend.workers):
        beyond = [rank for rank in parse_cpulist(some.ranks or "") if rank >= config.total_workers]
        if beyond:
            raise ConfigError(
                f"backend.workers[{number}].ranks = '{some.ranks}': there is no rank {beyond[0]}; "
                f"expected 0 to {config.total_workers - 1}"
            )
    if config.total_nodes > 1 and config.backend.workers:
        return []
    return [*_unmet_hosts(config), *_unmet_turns(config), *_unmet_by_devices(config)]


def _unmet_hosts(config: RunConfig) -> list[str]:
    """Warn of tables for computers that are not the only one of this run."""
    here = platform.node()
    return [
        f"backend.workers[{number}].hosts = '{each.hosts}': this computer is '{here}', so that no "
        "worker has this backend"
        for number, each in enumerate(config.backend.workers)
        if each.hosts is not None and not fnmatchcase(here, each.hosts)
    ]


def _unmet_turns(config: RunConfig) -> list[str]:
    """Warn of GPUs that workers are to take by turns, where none of them takes one."""
    turns, ranks = config.placement.gpus, range(int(config.workers))
    devices = {_backend_of(config, rank, platform.node())[0].device for rank in ranks}
    if turns == "auto" or any(each != "cpu" and ":" not in each for each in devices):
        return []
    return [
        f"placement.gpus = {turns}: no worker takes a GPU by turns; their devices are "
        f"{', '.join(sorted(devices))}"
    ]


def _unmet_by_devices(config: RunConfig) -> list[str]:
    """Warn of a precision that devices, found by "auto", have not; refuse what is missing."""
    own = {
        _backend_of(config, rank, platform.node())[1]: with_own_backend(config, rank).backend
        for rank in range(int(config.workers))
    }
    for where, each in own.items():
        if each.name == "cpu" and each.precision != "float32":
            from knltrain.backends.cpu.precision import check_here

            check_here(each, where)
        if each.graphs is True:
            from torch import device

            from knltrain.backends.torch.graphs import has_graphs

            has_graphs(device(each.device), each.graphs)
    return [
        f"{where}.precision = 'tf32' is of NVIDIA GPUs: on the device '{each.device}' all is "
        "float32"
        for where, each in own.items()
        if each.precision == "tf32" and not each.device.startswith("cuda")
    ]


def _backend_of(config: RunConfig, rank: int, host: str) -> tuple[BackendConfig, str]:
    """A worker's backend, and the table that says so."""
    for number, each in enumerate(config.backend.workers):
        is_rank = each.ranks is None or rank in parse_cpulist(each.ranks)
        if is_rank and (each.hosts is None or fnmatchcase(host, each.hosts)):
            return config.backend.of(each), f"backend.workers[{number}]"
    return config.backend.of(None), "backend"
