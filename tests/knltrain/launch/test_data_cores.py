"""The cores of a data pool, and the memory of a data set, on machines made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from affinity import AllowedResources, Placement, PlacementError, Topology
from knltrain.config import RunConfig
from knltrain.errors import ConfigError
from knltrain.launch.data_cores import DATA_POOL, apart_for_data, memory_for_data, told_of_pool
from knltrain.launch.node_share import ALONE, NodeShare

from ...affinity.placement.conftest import build


def config(workers: Any = 1, **placement: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "workers": workers,
            "network": {"name": "lenet"},
            "data": {"name": "digits", "batches_ahead": 4},
            "train": {"steps": 1, "batch": 64},
            "learning_rate": {"base": 0.1},
            "placement": placement,
        }
    )


def apart(
    topology: Topology, chosen: RunConfig, node_share: NodeShare = ALONE
) -> tuple[RunConfig, Placement | None, AllowedResources]:
    return apart_for_data(chosen, node_share, topology, AllowedResources(topology.cpus))


def test_without_data_cores_there_is_no_pool() -> None:
    chosen, place, allowed = apart(build((4,)), config())
    assert (place, allowed.cpus, chosen.placement.data_cores) == (None, (0, 1, 2, 3), 0)


def test_whole_cores_are_kept_from_the_end() -> None:
    _, place, allowed = apart(build((4,), threads=2), config(data_cores=1))
    assert place == Placement(DATA_POOL, (3, 7), 1, (0,), ((3, 7),))
    assert allowed.cpus == (0, 1, 2, 4, 5, 6)


def test_packages_give_cores_in_turn() -> None:
    _, place, _ = apart(build((4, 4), packages=2), config(data_cores=3))
    assert place is not None
    assert (place.cpus, place.threads, place.numa_nodes) == ((3, 6, 7), 3, (0, 1))


def test_cores_of_the_system_are_not_taken() -> None:
    _, place, allowed = apart(build((4,)), config(data_cores=1, os_cpus="3", os_cores=1))
    assert place is not None
    assert place.cpus == (2,)
    assert allowed.cpus == (0, 1, 3)  # of which those of the system are still kept


@pytest.mark.parametrize(("cores", "number"), [(15, 0), (16, 1), (68, 4)])
def test_auto_is_one_of_sixteen(cores: int, number: int) -> None:
    chosen, place, _ = apart(build((cores,)), config(data_cores="auto"))
    assert chosen.placement.data_cores == number
    assert (place is None) == (number == 0)


def test_too_few_cores_are_refused_with_the_numbers() -> None:
    with pytest.raises(PlacementError, match=r"data_cores = 3: of 4 cores here 2 workers need 2"):
        apart(build((4,)), config(2, data_cores=3))
    with pytest.raises(PlacementError, match=r"need 4 \(2 each\); expected at most 0"):
        apart(build((4,)), config(2, data_cores=1, communication_cores=1))
    with pytest.raises(PlacementError, match="expected at most 3"):
        apart(build((4,)), config("auto", data_cores=4))
    apart(build((4,)), config(2, data_cores=2))


def test_each_share_of_a_computer_has_its_part() -> None:
    chosen, place, _ = apart(build((4,)), config(4, data_cores=2), NodeShare(0, 1, 1, 2))
    assert place is not None
    assert (place.threads, chosen.placement.data_cores) == (1, 2)
    with pytest.raises(ConfigError, match="data_cores = 3: 2 tasks"):
        apart(build((4,)), config(4, data_cores=3), NodeShare(0, 1, 0, 2))


def test_unpinned_pools_share_the_cores() -> None:
    _, place, allowed = apart(build((2,)), config(2, data_cores=5, pin=False))
    assert place is not None
    assert (place.cpus, place.threads, place.cores) == ((0, 1), 5, ())
    assert allowed.cpus == (0, 1)


def test_data_are_spread_over_all_dram() -> None:
    machine = build((4, 4), hbm={2: 0, 3: 1})
    everything = AllowedResources(machine.cpus)
    assert memory_for_data(config(), machine, everything) == (0, 1)
    some = AllowedResources(machine.cpus, mems=(1, 2))
    assert memory_for_data(config(), machine, some) == (1,)
    assert memory_for_data(config(), machine, AllowedResources((0,), mems=(2, 3))) == (2, 3)
    assert memory_for_data(config(memory="none"), machine, everything) == ()
    assert memory_for_data(config(pin=False), machine, everything) == ()


def test_a_pool_is_told_in_one_line() -> None:
    place = Placement(DATA_POOL, (3, 7), 1, (0,), ((3, 7),))
    told = told_of_pool(config(), place, 2)
    assert told == "data pool: 1 core (cpus 3,7), 4 batches ahead of each of 2 workers"
    alone = told_of_pool(config(pin=False), Placement(DATA_POOL, (0,), 2, ()), 1)
    assert alone == "data pool: 2 cores, 4 batches ahead of its worker"
