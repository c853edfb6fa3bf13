"""The transport between the computers of a run: which one it is, and whether it is there."""

from __future__ import annotations

import importlib.util

from knltrain.assembly import strategy_of
from knltrain.communication.mpi.runtime import INSTALL
from knltrain.communication.oneccl.archived import MODULE
from knltrain.communication.oneccl.library import MISSING, installed
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError


def way_between_nodes(config: RunConfig) -> str:
    """The transport of `exchange.between_nodes`: as configured, or oneCCL where it is installed."""
    asked = config.exchange.between_nodes
    if asked != "auto":
        return asked
    if _goes_by_mpi(config):
        return "mpi"
    return "gloo" if installed() is None else "ccl"


def with_way_decided(config: RunConfig) -> RunConfig:
    """The same configuration with what `way_between_nodes` finds."""
    exchange = config.exchange.model_copy(update={"between_nodes": way_between_nodes(config)})
    return config.model_copy(update={"exchange": exchange})


def check_way(config: RunConfig) -> None:
    """Refuse a transport between computers that does not fit or is not installed; `ConfigError`."""
    method, way = config.exchange.method, config.exchange.between_nodes
    if config.total_nodes > 1 and _goes_by_mpi(config) and way != "mpi":
        raise ConfigError(
            f"exchange.between_nodes = '{way}': workers of '{method}' exchange between "
            "computers by MPI alone; expected 'mpi' or 'auto'"
        )
    if strategy_of(config).is_one_mpi_job and config.total_workers > 1:
        _check_mpi(config)
    if config.total_nodes == 1:
        return
    if way == "ccl" and installed() is None:
        raise ConfigError(f"exchange.between_nodes = 'ccl': {MISSING}, or use 'gloo'")
    for name, module, way_out in (
        ("mpi", "mpi4py", INSTALL),
        ("gaspi", "mpi4py", INSTALL),
        ("oneccl_bindings", MODULE, "it is archived: use 'ccl' or 'gloo'"),
    ):
        if way == name and importlib.util.find_spec(module) is None:
            raise ConfigError(
                f"exchange.between_nodes = '{name}', by which '{method}' goes from one "
                f"computer to another: no {module}; {way_out}"
            )


def _check_mpi(config: RunConfig) -> None:
    """Refuse a method whose workers are one MPI job where there is none; `ConfigError`."""
    if importlib.util.find_spec("mpi4py") is None:
        raise ConfigError(
            f"exchange.method = '{config.exchange.method}' with {config.total_workers} workers, "
            f"which are one MPI job, on one computer, too: no mpi4py; {INSTALL}, or use "
            "'layerwise_sgd'"
        )


def _goes_by_mpi(config: RunConfig) -> bool:
    """Whether MPI, and nothing else, carries the method's exchanges between computers."""
    alone, strategy = METHODS[config.exchange.method].comes_alone, strategy_of(config)
    return alone or strategy.visits_center or strategy.is_one_mpi_job
