"""Decisions about a run on the machine that the tests run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from affinity import (
    PlacementError,
    allowed_cpus,
    format_cpulist,
    physical_cores,
    read_allowed,
    read_topology,
)
from knltrain.assembly import check_names
from knltrain.config import RunConfig, load_config
from knltrain.errors import ConfigError, DataError
from knltrain.launch.node_share import NodeShare
from knltrain.launch.plan import asked_of, plan_run, threads_of

Load = Callable[..., RunConfig]

CONFIGS = sorted((Path(__file__).parents[3] / "configs").glob("*.toml"))


@pytest.fixture
def config_with(tmp_path: Path, run_toml: str) -> Load:
    path = tmp_path / "run.toml"
    path.write_text(run_toml)

    def load(*overrides: str) -> RunConfig:
        return load_config(path, overrides)

    return load


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_configurations_beside_the_sources_can_be_carried_out(path: Path) -> None:
    check_names(load_config(path))


def test_auto_becomes_a_number_that_is_written_down(config_with: Load) -> None:
    plan = plan_run(config_with("workers=auto", "train.batch=840", "data.train_images="))
    assert plan.config.workers == plan.workers == len(plan.placements)


@pytest.mark.usefixtures("two_cores")
def test_placements_share_no_cpu(config_with: Load) -> None:
    placements = plan_run(config_with()).placements
    assert not set(placements[0].cpus) & set(placements[1].cpus)


def test_unknown_names_are_refused_before_anything_starts(config_with: Load) -> None:
    with pytest.raises(ConfigError, match="did you mean 'lenet'"):
        plan_run(config_with("network.name=lenett"))


def test_missing_data_is_found_before_anything_starts(config_with: Load, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        plan_run(config_with("workers=1", "data.name=mnist", f"data.root={tmp_path}"))


def test_more_workers_than_cores_need_to_be_unpinned(config_with: Load) -> None:
    many = 4 * len(allowed_cpus())
    overrides = (f"workers={many}", f"train.batch={many}")
    with pytest.raises(PlacementError, match=f"{many} workers"):
        plan_run(config_with(*overrides))
    plan = plan_run(config_with(*overrides, "placement.pin=false"))
    assert {placement.cpus for placement in plan.placements} == {allowed_cpus()}
    assert [placement.rank for placement in plan.placements] == list(range(many))


def test_reserved_cores_do_not_count_where_workers_are_not_pinned(config_with: Load) -> None:
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    reserved = (f"placement.os_cores={cores}", "workers=1")
    with pytest.raises(PlacementError):
        plan_run(config_with(*reserved))
    plan = plan_run(config_with(*reserved, "placement.pin=false", "placement.memory=strict"))
    unheeded = [note for note in plan.notes if "is not heeded" in note]
    assert [note.partition(", ")[2].partition(" =")[0] for note in unheeded] == [
        "placement.os_cores",
        "placement.memory",
    ]


def test_ways_out_are_those_of_a_configuration(config_with: Load) -> None:
    if any(node.kind == "hbm" for node in read_topology().numa_nodes):
        pytest.skip("this machine has HBM")
    with pytest.raises(PlacementError) as caught:
        plan_run(config_with("workers=1", "placement.memory_kind=hbm"))
    told = str(caught.value)
    assert 'placement.memory_kind = "best"' in told
    assert "placement.hbm_nodes" in told
    assert "--hbm" not in told


def test_the_length_is_known_before_anything_starts(config_with: Load) -> None:
    assert plan_run(config_with("workers=1")).total_steps == 12
    assert plan_run(config_with("workers=1", "train.steps=7")).total_steps == 7


@pytest.mark.parametrize(
    ("overrides", "error", "expected"),
    [
        (("network.name=LeNet",), ConfigError, "unknown network.name 'LeNet': .* mean 'lenet'"),
        (("train.batch=97",), DataError, "batch of 97 images is larger than the 96 training"),
        (
            ("exchange.method=sync_sgd", "exchange.communication_period=2"),
            ConfigError,
            "exchange.communication_period = 2",
        ),
    ],
)
def test_what_no_worker_could_do_is_refused_before_anything_starts(
    config_with: Load, overrides: tuple[str, ...], error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        plan_run(config_with("workers=1", *overrides))


@pytest.mark.usefixtures("two_cores")
def test_threads_are_as_configured_or_one_per_core(config_with: Load) -> None:
    plan = plan_run(config_with())
    assert threads_of(plan.config, plan.placements[0]) == plan.placements[0].threads
    plan = plan_run(config_with("backend.threads=3"))
    assert threads_of(plan.config, plan.placements[0]) == 3
    asked = asked_of(plan.config, plan.placements[0])
    assert (asked["threads"], asked["pinned"]) == (3, True)
    assert asked["cpus"] == format_cpulist(plan.placements[0].cpus)


@pytest.mark.parametrize("pin", ["true", "false"])
def test_more_threads_than_cpus_are_told(config_with: Load, pin: str) -> None:
    cpus = len(plan_run(config_with(f"placement.pin={pin}")).placements[0].cpus)
    for threads, told in ((cpus, False), (cpus + 1, True)):
        chosen = config_with(f"placement.pin={pin}", f"backend.threads={threads}")
        notes = [note for note in plan_run(chosen).notes if "backend.threads" in note]
        assert len(notes) == told
        if told:
            assert f"expected {cpus} at most" in notes[0]


def test_data_is_found_from_another_working_directory(
    config_with: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = plan_run(config_with("workers=1", "data.root=images"))
    assert plan.config.data.root == str(tmp_path / "images")


@pytest.mark.usefixtures("two_cores")
def test_cores_for_communication_are_taken_from_those_that_compute(config_with: Load) -> None:
    plan = plan_run(config_with("workers=1", "placement.communication_cores=1"))
    (place,) = plan.placements
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    assert (len(place.cores), place.threads) == (cores - 1, cores - 1)
    assert place.communication_cpus
    assert not set(place.communication_cpus) & set(place.cpus)


PAIR = NodeShare(nodes=2)
UNPINNED = "placement.pin=false"


def test_run_on_several_nodes_counts_workers_on_all_of_them(config_with: Load) -> None:
    plan = plan_run(config_with(UNPINNED, "workers=2"), PAIR)
    assert (plan.workers, len(plan.placements), plan.config.nodes) == (4, 2, 2)
    second = plan.at(NodeShare(1, 2))
    assert [second.rank_of(place) for place in second.placements] == [2, 3]
    assert plan.config.exchange.moving_rate == pytest.approx(0.9 / 4)


def test_tasks_of_a_node_share_its_workers(config_with: Load) -> None:
    plan = plan_run(config_with(UNPINNED, "workers=2"), NodeShare(0, 2, 1, 2))
    assert [place.rank for place in plan.placements] == [1]
    other = plan.at(NodeShare(1, 2, 0, 2))
    assert [other.rank_of(place) for place in other.placements] == [2]
    with pytest.raises(ConfigError, match="workers = 1: 2 tasks were started on this computer"):
        plan_run(config_with(UNPINNED, "workers=1"), NodeShare(0, 1, 0, 2))


@pytest.mark.usefixtures("two_cores")
def test_auto_counts_the_workers_of_all_shares(config_with: Load) -> None:
    plan = plan_run(
        config_with("workers=auto", "train.batch=960", "data.train_images="), NodeShare(0, 1, 0, 2)
    )
    assert plan.config.workers == 2 * len(plan.placements)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["nodes=4", "train.batch=8"], "nodes = 4, but this process is started on 2"),
        (
            ["exchange.method=original_easgd", "exchange.between_nodes=gloo"],
            "workers of 'original_easgd' exchange between computers by MPI alone",
        ),
        (
            ["exchange.method=shmcaffe_h", "exchange.group_size=4"],
            "exchange.group_size = 4: a group shares the memory of one computer, and the 2 workers "
            "of each of 2 do not go in groups of that size; expected a divisor of 2, or leave it",
        ),
        (
            ["exchange.method=async_msgd", "exchange.wire_format=int8"],
            "a visit writes the center and what is kept beside it back as they are, in float32",
        ),
        (
            ["exchange.method=seasgd", "exchange.between_nodes=gloo"],
            "exchange.between_nodes = 'gloo': workers of 'seasgd' exchange between computers",
        ),
        (["exchange.emulated_link_gbits=10"], "a real link between them: leave it out"),
        (
            ["exchange.method=hierarchical_easgd", "exchange.group_size=1"],
            "the 2 workers of each are a group: leave it out",
        ),
        (
            ["exchange.wire_format=int8", "exchange.method=sync_easgd1"],
            "exchange.wire_format = 'int8': by sync_easgd1 the center is sent to all as it is",
        ),
        (
            ["exchange.wire_format=top_k", "exchange.method=none"],
            "exchange.wire_format = 'top_k': none never exchanges",
        ),
        (["train.batch=6"], "6 images do not divide evenly among 4 workers"),
    ],
)
def test_what_several_nodes_cannot_do_is_refused(
    config_with: Load, overrides: list[str], says: str
) -> None:
    with pytest.raises(ConfigError) as error:
        plan_run(config_with(UNPINNED, "workers=2", "data.train_images=96", *overrides), PAIR)
    assert says in str(error.value)


@pytest.mark.parametrize("written", ["bfloat16", "int8", "float4", "top_k"])
def test_nothing_is_written_for_the_wire_on_one_node(config_with: Load, written: str) -> None:
    chosen = config_with(UNPINNED, "workers=2", f"exchange.wire_format={written}")
    with pytest.raises(ConfigError, match=f"wire_format = '{written}' on 1 computer.*'float32'"):
        plan_run(chosen)
    assert plan_run(chosen, PAIR).config.exchange.wire_format == written


def test_workers_along_trees_need_mpi_on_one_computer_too(
    config_with: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "knltrain.launch.way_between_nodes.importlib.util.find_spec", lambda _: None
    )
    chosen = ("exchange.method=caffegpi", "placement.pin=false")
    with pytest.raises(ConfigError, match=r"which are one MPI job.* no mpi4py; pip install"):
        plan_run(config_with(*chosen))
    assert plan_run(config_with(*chosen, "workers=1")).workers == 1
    with pytest.raises(ConfigError, match="'caffegpi' exchange between computers by MPI"):
        plan_run(config_with(*chosen, "exchange.between_nodes=gloo"), PAIR)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(("quota", "workers"), [(0.5, 1), (1.0, 1), (1.9, 1), (2.0, 2)])
def test_auto_starts_no_more_workers_than_a_quota_gives_cpus(
    config_with: Load, monkeypatch: pytest.MonkeyPatch, quota: float, workers: int
) -> None:
    cpus = tuple(core.cpus[0] for core in physical_cores(read_topology(), allowed_cpus())[:2])
    allowed = replace(read_allowed(), cpus=cpus, cpu_quota=quota)
    monkeypatch.setattr("knltrain.launch.plan.read_allowed", lambda: allowed)
    plan = plan_run(config_with("workers=auto", "train.batch=840", "data.train_images="))
    assert plan.workers == len(plan.placements) == workers
    assert sum(place.threads for place in plan.placements) == workers
    told = f'workers = "auto" heeds a control group that gives this process time of {quota:g} cpus'
    assert any(note.startswith(told) for note in plan.notes) == (quota < 2)


@pytest.mark.usefixtures("two_cores")
def test_workers_that_are_told_by_number_are_started_whatever_the_quota(
    config_with: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = replace(read_allowed(), cpu_quota=1.0)
    monkeypatch.setattr("knltrain.launch.plan.read_allowed", lambda: allowed)
    plan = plan_run(config_with("workers=2"))
    assert plan.workers == 2
    assert not any("heeds a control group" in note for note in plan.notes)


def test_what_is_measured_of_training_pictures_is_a_number_in_the_plan(config_with: Load) -> None:
    plan = plan_run(config_with("placement.pin=false"))
    assert plan.preprocessing is not None
    assert plan.config.data.mean == tuple(plan.preprocessing.mean)
    assert plan.config.data.deviation == tuple(plan.preprocessing.deviation)
    assert plan.preprocessing.class_names == tuple("0123456789")
