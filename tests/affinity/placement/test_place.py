from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from affinity.errors import PlacementError
from affinity.placement import sharing
from affinity.placement.place import physical_cores, place_workers
from affinity.placement.plan import Need, Plan, Request, Reserve
from affinity.placement.sharing import ALIGNED_SHARE
from affinity.placement.tiles import tiles_of, uncut
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

Machine = Callable[..., Topology]
MIB = 1024**2


def _place(topology: Topology, request: Request) -> Plan:
    return place_workers(topology, AllowedResources(topology.cpus), request)


def _sizes(plan: Plan) -> list[int]:
    return [len(worker.cores) for worker in plan.workers]


@st.composite
def _machines(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `machine`."""
    nodes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    hbm = {
        len(nodes) + at: node
        for at, node in enumerate(draw(st.permutations(range(len(nodes)))))
        if draw(st.booleans())
    }
    return {
        "nodes": nodes,
        "packages": draw(st.integers(1, len(nodes))),
        "threads": draw(st.integers(1, 4)),
        "tile": draw(st.sampled_from((0, 2, 4))),
        "l3": draw(st.sampled_from((0, 3, 6))),
        "hbm": hbm,
        "gib": 0.25,
        "hbm_gib": 0.0625,
        "distances": draw(st.sampled_from((None, "knl", "max"))),
        "changes": {node: {"reclaimable_bytes": draw(st.integers(0, 50 * MIB))} for node in hbm},
    }


_reserves = st.builds(
    Reserve,
    os_cores=st.integers(0, 1),
    communication_cores=st.integers(0, 1),
    data_cores=st.integers(0, 1),
)
_requests = st.builds(
    Request,
    workers=st.integers(1, 12) | st.sampled_from(("core", "tile", "l3", "numa", "package")),
    cores_per_worker=st.none() | st.integers(1, 4),
    threads_per_core=st.integers(1, 2),
    strategy=st.sampled_from(("close", "scatter")),
    reserve=st.just(Reserve()) | _reserves,
    policy=st.sampled_from(("strict", "spill", "weighted", "cache", "none")),
    needs=st.just(())
    | st.builds(Need, st.just("w"), st.integers(0, 200 * MIB)).map(lambda n: (n,)),
)

_many = settings(suppress_health_check=[HealthCheck.filter_too_much])
"""Of the machines and requests drawn, many do not go together."""


@dataclass(frozen=True)
class _Trial:
    """A machine, a request, and a way to draw which of the cpus are allowed."""

    words: dict[str, Any]
    request: Request
    data: st.DataObject

    def place(self, machine: Machine) -> tuple[Topology, set[int], Plan]:
        """A plan for some of the machine's cpus; draws another example where there is none."""
        topology, data = machine(**self.words), self.data
        allowed = set(topology.cpus)
        if data.draw(st.booleans(), label="restricted"):
            some = st.sets(st.sampled_from(topology.cpus), min_size=1)
            allowed = data.draw(some, label="allowed")
        try:
            return (
                topology,
                allowed,
                place_workers(topology, AllowedResources(tuple(allowed)), self.request),
            )
        except PlacementError:
            assume(False)
            raise


_trials = st.builds(_Trial, _machines(), _requests, st.data())


@_many
@given(_trials)
def test_every_allowed_cpu_is_a_worker_s_or_kept_or_idle(machine: Machine, trial: _Trial) -> None:
    _, allowed, plan = trial.place(machine)
    given_out = [cpu for worker in plan.workers for cpu in worker.all_cpus]
    everything = [*given_out, *plan.os_cpus, *plan.idle_cpus]
    assert len(everything) == len(set(everything))
    assert set(everything) == allowed
    assert [worker.rank for worker in plan.workers] == list(range(len(plan.workers)))


@_many
@given(_trials)
def test_tiles_and_cores_are_never_cut(machine: Machine, trial: _Trial) -> None:
    topology, allowed, plan = trial.place(machine)
    owner = {cpu: worker.rank for worker in plan.workers for cpu in worker.all_cpus}
    for core in topology.cores:
        owners = {owner.get(cpu) for cpu in core.cpus if cpu in allowed}
        assert len(owners) <= 1
    for tile in uncut(topology) if trial.request.workers != "core" else ():
        assert len({owner[cpu] for core in tile for cpu in core.cpus if cpu in owner}) <= 1


@_many
@given(_trials)
def test_threads_and_nodes_are_those_of_the_computing_cores(
    machine: Machine, trial: _Trial
) -> None:
    topology, _, plan = trial.place(machine)
    home = {cpu: core.numa_node for core in topology.cores for cpu in core.cpus}
    for worker in plan.workers:
        assert worker.threads == len(worker.cores) * trial.request.threads_per_core > 0
        assert sorted(cpu for core in worker.cores for cpu in core) == list(worker.cpus)
        assert worker.numa_nodes == tuple(sorted({home[cpu] for cpu in worker.cpus}))
        if trial.request.cores_per_worker is not None:
            helpers = trial.request.reserve.communication_cores + trial.request.reserve.data_cores
            assert len(worker.cores) == trial.request.cores_per_worker - helpers


@_many
@given(_trials)
def test_no_memory_is_promised_twice(machine: Machine, trial: _Trial) -> None:
    topology, _, plan = trial.place(machine)
    expected: Counter[int] = Counter()
    for worker in plan.workers:
        memory = worker.memory
        expected.update(dict(memory.expected))
        assert set(memory.nodes) <= set(memory.order) or memory.policy == "none"
        if memory.policy == "strict":
            assert (memory.need_bytes or 0) <= memory.budget_bytes
            assert sum(dict(memory.expected).values()) == (memory.need_bytes or 0)
            assert {node for node, _ in memory.expected} <= set(memory.nodes)
    free = {node.id: node.free_bytes for node in topology.numa_nodes}
    room = {node.id: free[node.id] + node.reclaimable_bytes for node in topology.numa_nodes}
    assert all(number <= room[node] for node, number in expected.items())
    bound = [worker.memory for worker in plan.workers if worker.memory.nodes]
    nodes = {node for memory in bound for node in memory.nodes}
    budgets = sum(memory.budget_bytes for memory in bound)
    given_out = room if trial.request.policy == "strict" else free
    assert budgets <= sum(given_out[node] for node in nodes)


@given(_machines(), st.data())
def test_all_cores_are_shared_evenly_and_in_the_order_of_the_machine(
    machine: Machine, words: dict[str, Any], data: st.DataObject
) -> None:
    topology = machine(**words)
    tiles = tiles_of(topology, topology.cores)
    workers = data.draw(st.integers(1, len(tiles)))
    plan = _place(topology, Request(workers))
    assert plan.idle_cpus == plan.os_cpus == ()
    widest = max(len(tile.cores) for tile in tiles)
    assert min(_sizes(plan)) >= ALIGNED_SHARE * (len(topology.cores) // workers - widest + 1)
    at = {core.cpus[0]: position for position, core in enumerate(topology.cores)}
    spans = [sorted(at[core[0]] for core in worker.cores) for worker in plan.workers]
    assert all(before[-1] < after[0] for before, after in pairwise(spans))


def test_each_cluster_of_a_xeon_phi_gets_a_worker_and_its_mcdram(phi: Topology) -> None:
    plan = _place(phi, Request(4))
    assert _sizes(plan) == [18, 18, 16, 16]
    assert [worker.numa_nodes for worker in plan.workers] == [(0,), (1,), (2,), (3,)]
    assert [worker.memory.nodes for worker in plan.workers] == [(7,), (4,), (5,), (6,)]
    assert plan.workers[1].cpus[:2] == (18, 19)
    assert plan.workers[1].cores[0] == (18, 86, 154, 222)


def test_two_workers_per_cluster_leave_tiles_whole(phi: Topology) -> None:
    plan = _place(phi, Request(8))
    assert _sizes(plan) == [10, 8, 10, 8, 8, 8, 8, 8]
    assert [worker.numa_nodes[0] for worker in plan.workers] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_worker_on_each_unit(machine: Machine, phi: Topology) -> None:
    epyc = machine(nodes=(12, 12), packages=2, l3=4, threads=2)
    assert _sizes(_place(phi, Request("tile"))) == [2] * 34
    assert _sizes(_place(phi, Request("core"))) == [1] * 68
    assert _sizes(_place(phi, Request("numa"))) == [18, 18, 16, 16]
    assert _sizes(_place(phi, Request("package"))) == [68]
    assert [worker.cores[0][0] for worker in _place(epyc, Request("l3")).workers] == [
        0, 4, 8, 12, 16, 20,
    ]  # fmt: skip


def test_worker_on_each_allowed_unit_only(phi: Topology) -> None:
    plan = place_workers(phi, AllowedResources((0, 2, 3, 50)), Request("tile"))
    assert [worker.cpus for worker in plan.workers] == [(0,), (2, 3), (50,)]
    nodes = place_workers(phi, AllowedResources((0, 2, 3, 50)), Request("numa"))
    assert [worker.cpus for worker in nodes.workers] == [(0, 2, 3), (50,)]


def test_unit_of_a_cache_level_without_caches_is_refused(phi: Topology) -> None:
    with pytest.raises(PlacementError, match="no L3 is known on this machine: use tile, numa"):
        _place(phi, Request("l3"))


def test_large_l2_is_a_unit_although_it_may_be_cut(machine: Machine) -> None:
    a64fx = machine(nodes=(12, 12, 12, 12), tile=12)
    assert _sizes(_place(a64fx, Request("tile"))) == [12] * 4
    assert _sizes(_place(a64fx, Request(8))) == [6] * 8


def test_close_workers_fill_the_front_and_scattered_ones_spread(xeon_max: Topology) -> None:
    close = _place(xeon_max, Request(2, cores_per_worker=10))
    scattered = _place(xeon_max, Request(2, cores_per_worker=10, strategy="scatter"))
    assert [worker.cores[0][0] for worker in close.workers] == [0, 10]
    assert [worker.cores[0][0] for worker in scattered.workers] == [0, 52]
    assert close.idle_cpus == (*range(20, 104), *range(124, 208))


def test_odd_number_of_cores_leaves_the_rest_of_a_tile_idle(phi: Topology) -> None:
    plan = _place(phi, Request(2, cores_per_worker=3))
    assert [worker.cores[0][0] for worker in plan.workers] == [0, 4]
    assert set(phi.cores[3].cpus) <= set(plan.idle_cpus)


def test_cores_of_each_unit_are_its_first(phi: Topology) -> None:
    plan = _place(phi, Request("numa", cores_per_worker=4))
    assert [worker.cores[0][0] for worker in plan.workers] == [0, 18, 36, 52]
    with pytest.raises(PlacementError, match=r"17 cores on each NUMA node .* has only 16"):
        _place(phi, Request("numa", cores_per_worker=17))


def test_site_s_cores_are_kept_on_each_package(xeon_max: Topology) -> None:
    plan = _place(xeon_max, Request(2, reserve=Reserve(os_cpus=(0, 52))))
    assert plan.os_cpus == (0, 52, 104, 156)
    assert _sizes(plan) == [51, 51]


def test_site_s_cores_outside_the_cpuset_are_not_told_as_kept(xeon_max: Topology) -> None:
    allowed = AllowedResources(tuple(range(52, 104)))
    plan = place_workers(xeon_max, allowed, Request(1, reserve=Reserve(os_cpus=(0, 52))))
    assert plan.os_cpus == (52,)
    assert _sizes(plan) == [51]


def test_cpus_by_hand_are_taken_as_they_are(xeon_max: Topology) -> None:
    plan = _place(xeon_max, Request(2, cpus=((0, 104, 1, 105), (60, 164)), threads_per_core=2))
    assert [worker.cores for worker in plan.workers] == [((0, 104), (1, 105)), ((60, 164),)]
    assert [worker.threads for worker in plan.workers] == [4, 2]
    assert [worker.memory.nodes for worker in plan.workers] == [(2,), (3,)]


def test_core_with_one_allowed_thread_counts_as_a_core(machine: Machine) -> None:
    topology = machine(nodes=(2,), threads=2)
    assert [core.cpus for core in physical_cores(topology, [1, 2, 3])] == [(2,), (1, 3)]


def test_more_workers_than_cores_names_cpus_cores_and_ways_out(machine: Machine) -> None:
    topology = machine(nodes=(4,), threads=2)
    with pytest.raises(PlacementError) as caught:
        place_workers(topology, AllowedResources((0, 1, 4, 5)), Request(4))
    assert str(caught.value) == (
        "4 workers asked for, but the allowed cpus 0-1,4-5 hold 2 physical cores: "
        "use --workers 2 or fewer, or widen the cpuset"
    )
    with pytest.raises(PlacementError, match=r"1 physical core: use --workers 1, or srun -c$"):
        place_workers(topology, AllowedResources((0,), way_to_more_cpus="srun -c"), Request(2))


def test_more_workers_than_tiles_names_the_way_to_cut_them(phi: Topology) -> None:
    with pytest.raises(PlacementError, match=r"68 physical cores on 34 tiles .*--workers core for"):
        _place(phi, Request(40))


def test_cores_kept_for_the_system_are_missing_from_the_rest(machine: Machine) -> None:
    topology = machine(nodes=(4,))
    with pytest.raises(
        PlacementError, match=r"besides cpus 0-1, kept .*hold 2 physical cores: use"
    ):
        _place(topology, Request(3, reserve=Reserve(os_cores=2)))
    with pytest.raises(PlacementError, match=r"^nothing is left.*0-3 are kept for the system"):
        _place(topology, Request(1, reserve=Reserve(os_cores=4)))


def test_workers_that_want_more_cores_than_there_are_are_refused(phi: Topology) -> None:
    for strategy in ("close", "scatter"):
        with pytest.raises(PlacementError, match=r"4 workers of 17 cores.*room for 3 such workers"):
            _place(phi, Request(4, cores_per_worker=17, strategy=strategy))
    with pytest.raises(
        PlacementError,
        match=r"^1 worker of 69 cores .*too few even for one .*: use fewer cores for each worker",
    ):
        _place(phi, Request(1, cores_per_worker=69))


def test_allowed_cpus_that_the_machine_lacks_are_named(machine: Machine) -> None:
    with pytest.raises(PlacementError, match=r"allowed cpus include 2,7, .*only 0-1"):
        place_workers(machine(nodes=(2,)), AllowedResources((0, 2, 7)), Request())


def test_empty_cpuset_is_refused(machine: Machine) -> None:
    with pytest.raises(PlacementError, match="no cpus are allowed"):
        place_workers(machine(nodes=(2,)), AllowedResources(()), Request())


def test_who_restricts_the_cpus_stands_in_the_error(machine: Machine) -> None:
    allowed = AllowedResources((0,), said_by=("Slurm: --cpus-per-task=1",))
    with pytest.raises(PlacementError, match=r"allowed cpus 0 \(Slurm: --cpus-per-task=1\) hold 1"):
        place_workers(machine(), allowed, Request(2))


def test_memory_that_may_not_be_used_is_refused(xeon_max: Topology) -> None:
    with pytest.raises(PlacementError, match="no memory may be used: allowed is node 9"):
        place_workers(xeon_max, AllowedResources(xeon_max.cpus, (9,)), Request(2))


def test_large_machine_is_placed_without_trying_every_cut(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 480 hardware threads in 60 L3s: cut by cut from one end, 7000 cuts would be judged.
    large = machine(nodes=(240,), threads=2, l3=4)
    smallest, judged = sharing._smallest, Counter[str]()

    def counting(ends: Sequence[int], begin: int, end: int, workers: int) -> int:
        judged["cuts"] += 1
        return smallest(ends, begin, end, workers)

    monkeypatch.setattr(sharing, "_smallest", counting)
    assert len(_place(large, Request(240)).workers) == 240
    assert judged["cuts"] < 3000
