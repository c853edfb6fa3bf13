from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from affinity.placement.place import place_workers
from affinity.placement.plan import Plan, Request, Reserve
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

Machine = Callable[..., Topology]


def _plan(topology: Topology, request: Request) -> Plan:
    return place_workers(topology, AllowedResources(topology.cpus), request)


def test_worker_says_why_it_has_its_cores(phi: Topology) -> None:
    assert _plan(phi, Request(4)).workers[2].reasons == (
        "4 workers share 68 cores",
        "all 16 cores of NUMA node 2 (package 0)",
        "cores that share an L2 cache stay together, here up to 2",
        "16 threads compute, one on each core; all allowed hardware threads, up to 4 of a core, "
        "are in its mask",
    )


def test_single_core_is_told_in_the_singular(machine: Machine) -> None:
    topology = machine(nodes=(1, 2))
    alone = _plan(topology, Request("numa")).workers[0]
    assert alone.reasons == (
        "one worker for each NUMA node",
        "the only core of NUMA node 0 (package 0)",
        "1 thread computes, one on its core",
    )
    assert (
        _plan(machine(nodes=(1,)), Request()).workers[0].reasons[0]
        == "one worker has the only core"
    )


def test_worker_across_nodes_says_why(machine: Machine) -> None:
    plan = _plan(machine(nodes=(8, 8), packages=2), Request(3))
    assert plan.workers[1].reasons[:3] == (
        "3 workers share 16 cores",
        "2 of the 8 cores of NUMA node 0 (package 0) and 3 of the 8 cores of NUMA node 1 "
        "(package 1)",
        "it spans NUMA nodes, as whole ones would leave some worker less than 90% of an even share",
    )
    packed = _plan(machine(nodes=(5, 5)), Request(3, cores_per_worker=3))
    assert "it spans NUMA nodes, as not all workers find room inside one" in (
        packed.workers[1].reasons
    )
    whole = _plan(machine(nodes=(8, 8)), Request(1)).workers[0]
    assert not any("spans" in reason for reason in whole.reasons)


def test_how_the_workers_were_asked_for_comes_first(machine: Machine) -> None:
    topology = machine(nodes=(4, 4), l3=4)
    first = [
        _plan(topology, request).workers[0].reasons[0]
        for request in (
            Request(),
            Request("l3"),
            Request("numa", cores_per_worker=2),
            Request(2, cores_per_worker=2),
            Request(2, cores_per_worker=1, strategy="scatter"),
            Request(cpus=((0,),)),
        )
    ]
    assert first == [
        "one worker has all 8 cores",
        "one worker for each L3 cache",
        "one worker for each NUMA node, 2 cores of it",
        "2 workers of 2 cores, from the front of the machine",
        "2 workers of 1 core, spread over the machine",
        "its cpus are given by hand",
    ]


def test_helpers_are_explained(phi: Topology) -> None:
    apart = _plan(phi, Request(4, reserve=Reserve(communication_cores=1, data_cores=1)))
    assert apart.workers[0].reasons[-2:] == (
        "communication on cpus 17,85,153,221, the last of its own cores",
        "data reading on cpus 16,84,152,220, taken from its own cores as well",
    )
    reserve = Reserve(communication_cores=1, communication_on_siblings=True)
    assert _plan(phi, Request(4, reserve=reserve)).workers[0].reasons[-1] == (
        "communication on cpu 85, sibling of its last computing core"
    )
    two = replace(reserve, communication_cores=2)
    assert _plan(phi, Request(4, reserve=two)).workers[0].reasons[-1] == (
        "communication on cpus 84-85, siblings of its last cores"
    )


def test_cores_kept_for_the_system_are_not_counted(phi: Topology) -> None:
    plan = _plan(phi, Request(4, reserve=Reserve(os_cores=2)))
    assert plan.workers[0].reasons[1] == "all 16 usable cores of NUMA node 0 (package 0)"


def test_uneven_workers_are_noted(phi: Topology) -> None:
    assert _plan(phi, Request(4)).notes == (
        "workers are uneven: 2 workers with 18 and 2 workers with 16 computing cores; all wait for "
        "the smallest",
    )


def test_idle_cpus_are_noted(machine: Machine) -> None:
    assert _plan(machine(nodes=(4,)), Request(1, cores_per_worker=3)).notes == (
        "allowed, but idle as no worker has them: cpu 3",
    )


def test_offline_cpus_that_are_allowed_are_noted(machine: Machine) -> None:
    topology = replace(machine(nodes=(2,)), offline_cpus=(2, 3))
    plan = place_workers(topology, AllowedResources((0, 1, 3)), Request(2))
    assert plan.notes == ("allowed, but offline: cpu 3",)
    assert [worker.cpus for worker in plan.workers] == [(0,), (1,)]


def test_more_threads_than_the_quota_are_noted(machine: Machine) -> None:
    topology = machine(nodes=(4,))
    allowed = AllowedResources(
        topology.cpus, cpu_quota=2.5, said_by=("cgroup /job: time of 2.5 cpus",)
    )
    (note,) = place_workers(topology, allowed, Request(2)).notes
    assert note.startswith("4 threads compute, but the time of 2.5 cpus is all that may be used (")
    (single,) = place_workers(
        machine(nodes=(1,)), AllowedResources((0,), cpu_quota=0.5), Request()
    ).notes
    assert single.startswith("1 thread computes, but the time of 0.5 cpus")
    enough = place_workers(topology, replace(allowed, cpu_quota=4.0), Request(2))
    assert enough.notes == ()


def test_one_worker_per_core_says_that_tiles_are_shared(phi: Topology, machine: Machine) -> None:
    shared = "one worker on each core, as asked: workers share the L2 caches of their tiles"
    assert shared in _plan(phi, Request("core")).notes
    alone = "no cores share an L2 here: every core counts as a tile"
    assert alone in _plan(machine(), Request("tile")).notes
