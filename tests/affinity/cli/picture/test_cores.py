from __future__ import annotations

from dataclasses import replace

from affinity.cli.homes import homes
from affinity.cli.picture.blocks import Block, Rectangle, Words
from affinity.cli.picture.colours import CORE
from affinity.cli.picture.cores import cores_block
from affinity.cli.roles import Role, cpu_roles
from affinity.placement.plan import Placement, Plan
from affinity.topology import Cache, Topology


def _told(block: Block, start: str) -> list[Rectangle]:
    shapes = (shape for shape in block.shapes if isinstance(shape, Rectangle))
    return [shape for shape in shapes if shape.told.startswith(start)]


def test_every_core_and_thread_of_a_cluster_is_drawn_once(knights_landing: Topology) -> None:
    block = cores_block(knights_landing, homes(knights_landing)[2], None)
    assert len(_told(block, "core ")) == 16
    assert len(_told(block, "cpu ")) == 64
    assert len(_told(block, "tile of 2 cores")) == 8
    assert {core.fill for core in _told(block, "core ")} == {CORE}
    numbers = [shape.text for shape in block.shapes if isinstance(shape, Words)]
    assert numbers == [str(cpu) for cpu in range(36, 52)]


def test_cores_have_the_colours_of_their_workers(
    knights_landing: Topology, knights_plan: Plan
) -> None:
    roles = cpu_roles(knights_landing, knights_plan)
    block = cores_block(knights_landing, homes(knights_landing)[0], roles)
    fills = [core.fill for core in _told(block, "core ")]
    assert fills == ["#4b5563"] * 2 + ["#4e79a7"] * 16
    system, *_ = _told(block, "core 0 of package 0")
    assert system.told == "core 0 of package 0, cpus 0,68,136,204: kept for the system"


def test_sibling_that_communicates_has_another_colour_than_its_core(cache_mode: Topology) -> None:
    core = replace(cache_mode.cores[0], cpus=(0, 1))
    machine = replace(cache_mode, cores=(core,))
    roles = {0: Role("compute", 0), 1: Role("communication", 0)}
    computing, communicating = _told(cores_block(machine, homes(machine)[0], roles), "cpu ")
    assert (computing.told, communicating.told) == (
        "cpu 0: worker 0",
        "cpu 1: worker 0, communication",
    )
    assert computing.fill != communicating.fill == "#c1d0e0"


def test_cores_that_only_help_carry_a_letter(cache_mode: Topology) -> None:
    worker = Placement(0, (0,), 1, (0,), communication_cpus=(1,), data_cpus=(2,))
    roles = cpu_roles(cache_mode, Plan(workers=(worker,)))
    block = cores_block(cache_mode, homes(cache_mode)[0], roles)
    numbers = [shape.text for shape in block.shapes if isinstance(shape, Words)]
    assert numbers == ["0", "1c", "2d", "3"]


def test_groups_that_share_an_l3_are_framed(cache_mode: Topology) -> None:
    caches = tuple(Cache(3, "unified", 2**25, 64, cpus) for cpus in ((0, 1), (2, 3)))
    machine = replace(cache_mode, caches=caches)
    plain = cores_block(cache_mode, homes(cache_mode)[0], None)
    grouped = cores_block(machine, homes(machine)[0], None)
    assert len(grouped.shapes) == len(plain.shapes) + 2


def test_of_an_l3_beyond_the_node_its_own_part_is_drawn(knights_landing: Topology) -> None:
    everything = tuple(cpu for core in knights_landing.cores for cpu in core.cpus)
    shared = Cache(3, "unified", 2**20, 64, everything)
    machine = replace(knights_landing, caches=(*knights_landing.caches, shared))
    blocks = [cores_block(machine, home, None) for home in homes(machine)]
    assert [len(_told(block, "core ")) for block in blocks] == [18, 18, 16, 16]
