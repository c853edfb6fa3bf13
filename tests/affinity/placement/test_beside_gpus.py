"""Workers with a GPU sit on cores next to it; the others share what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinity.errors import PlacementError
from affinity.placement.beside_gpus import visible_to
from affinity.placement.place import place_workers
from affinity.placement.plan import Plan, Request, Reserve
from affinity.process.allowed import AllowedResources
from affinity.topology import Gpu, Topology

Machine = Callable[..., Topology]


def _gpu(number: int, cpus: Sequence[int] = (), uuid: str | None = None) -> Gpu:
    own = f"GPU-{number}" if uuid is None else uuid
    return Gpu(f"0000:{number:02x}:00.0", "NVIDIA", "A100", own, None, tuple(cpus), "told")


def _gpus(machine: Topology, *nodes: int | None) -> tuple[Gpu, ...]:
    """A GPU next to each of the nodes; None: nothing tells."""
    cpus = {node.id: node.cpus for node in machine.numa_nodes}
    return tuple(_gpu(at, () if node is None else cpus[node]) for at, node in enumerate(nodes))


def _place(topology: Topology, workers: int, gpus: Sequence[Gpu | None], **more: object) -> Plan:
    request = replace(Request(workers, gpus=tuple(gpus)), **more)
    return place_workers(topology, AllowedResources(topology.cpus), request)


def _cpus(plan: Plan) -> list[list[int]]:
    return [list(worker.cpus) for worker in plan.workers]


def test_each_gpu_gets_its_part_of_the_cores_next_to_it(machine: Machine) -> None:
    topology = machine(nodes=(4, 4))
    plan = _place(topology, 3, _gpus(topology, 1, 0, 1))
    assert _cpus(plan) == [[4, 5], [0, 1, 2, 3], [6, 7]]
    assert [worker.gpu for worker in plan.workers] == [
        "0000:00:00.0", "0000:01:00.0", "0000:02:00.0",
    ]  # fmt: skip
    assert "computes on GPU 0000:00:00.0, A100; its cores are next to it (told)" in " ".join(
        plan.workers[0].reasons
    )
    assert plan.notes == ()
    assert plan.idle_cpus == ()


def test_workers_without_a_gpu_share_what_those_with_one_leave(machine: Machine) -> None:
    topology = machine(nodes=(6, 6))
    plan = _place(topology, 4, [None, *_gpus(topology, 1, 1)])
    assert _cpus(plan)[1:3] == [[6, 7], [8, 9]]
    assert sorted(map(len, _cpus(plan))) == [2, 2, 4, 4]
    assert [bool(worker.gpu) for worker in plan.workers] == [False, True, True, False]
    assert not plan.idle_cpus
    assert not [note for note in plan.notes if "uneven" in note]


def test_the_number_of_cores_beside_a_gpu_may_be_given(machine: Machine) -> None:
    topology = machine(nodes=(4, 4))
    gpus = _gpus(topology, 0, 0)
    assert _cpus(_place(topology, 3, gpus, gpu_host_cores=1)) == [[0], [1], [2, 3, 4, 5, 6, 7]]
    assert _cpus(_place(topology, 2, gpus, gpu_host_cores=3)) == [[0, 1, 2], [3, 4, 5]]
    assert _cpus(_place(topology, 2, gpus, cores_per_worker=1)) == [[0], [1]]


def test_tiles_stay_whole_beside_a_gpu(machine: Machine) -> None:
    topology = machine(nodes=(8,), tile=2)
    plan = _place(topology, 2, _gpus(topology, 0), gpu_host_cores=1)
    assert _cpus(plan) == [[0, 1], [2, 3, 4, 5, 6, 7]]


def test_a_gpu_whose_cores_are_taken_is_served_from_afar(machine: Machine) -> None:
    topology = machine(nodes=(2, 4))
    plan = _place(topology, 3, _gpus(topology, 0, 0))
    assert _cpus(plan) == [[0, 1], [2, 3], [4, 5]]
    assert "its cores are away from it" in plan.workers[1].reasons[0]


def test_a_gpu_of_which_nothing_is_told_takes_what_the_others_leave(machine: Machine) -> None:
    topology = machine(nodes=(2, 4))
    plan = _place(topology, 3, _gpus(topology, None, 0))
    assert _cpus(plan) == [[2, 3], [0, 1], [4, 5]]
    assert "its cores are anywhere" in plan.workers[0].reasons[0]
    assert _cpus(_place(topology, 2, _gpus(topology, None, 0))) == [[3, 4, 5], [0, 1, 2]]
    alone = machine(nodes=(4,))
    assert _cpus(_place(alone, 2, _gpus(alone, None, 0))) == [[2, 3], [0, 1]]


def test_nodes_without_a_gpu_are_shared_out_in_the_same_package(machine: Machine) -> None:
    topology = machine(nodes=(6,) * 8, packages=2)
    plan = _place(topology, 4, _gpus(topology, 3, 1, 7, 5))
    assert [worker.numa_nodes for worker in plan.workers] == [(0, 3), (1, 2), (4, 7), (5, 6)]
    assert [len(worker.cpus) for worker in plan.workers] == [12] * 4
    assert "6 of its 12 cores are next to it" in plan.workers[0].reasons[0]


def test_cores_next_to_none_go_to_whoever_has_the_fewest(machine: Machine) -> None:
    topology = machine(nodes=(2, 4, 3))
    plan = _place(topology, 2, _gpus(topology, 0, 1))
    assert _cpus(plan) == [[0, 1, 6, 7, 8], [2, 3, 4, 5]]


def test_what_is_kept_for_the_system_is_kept_once(machine: Machine) -> None:
    topology = machine(nodes=(4,))
    for reserve in (Reserve(os_cores=1), Reserve(os_cpus=(0,))):
        plan = _place(topology, 2, _gpus(topology, 0), reserve=reserve)
        assert (_cpus(plan), plan.os_cpus, plan.idle_cpus) == ([[1, 2], [3]], (0,), ())


def test_on_a_machine_of_hbm_alone_memory_beside_a_gpu_is_hbm(machine: Machine) -> None:
    topology = machine(nodes=(4,), changes={0: {"kind": "hbm"}})
    plan = _place(topology, 2, _gpus(topology, 0))
    assert all(worker.memory.hbm for worker in plan.workers)


def test_memory_beside_a_gpu_is_dram(machine: Machine) -> None:
    topology = machine(nodes=(4,), hbm={1: 0})
    plan = _place(topology, 2, _gpus(topology, 0))
    assert [worker.memory.hbm for worker in plan.workers] == [False, True]
    wanted = _place(topology, 2, _gpus(topology, 0), kind="hbm")
    assert [worker.memory.hbm for worker in wanted.workers] == [True, True]


def test_cores_by_hand_have_gpus_too(machine: Machine) -> None:
    topology = machine(nodes=(4,))
    plan = _place(topology, 1, _gpus(topology, 0), cpus=((2, 3), (0, 1)))
    assert _cpus(plan) == [[2, 3], [0, 1]]
    assert [worker.gpu for worker in plan.workers] == ["0000:00:00.0", ""]


def test_helpers_come_from_the_cores_beside_the_gpu(machine: Machine) -> None:
    topology = machine(nodes=(4,))
    reserve = Reserve(communication_cores=1)
    plan = _place(topology, 1, _gpus(topology, 0), reserve=reserve, gpu_host_cores=2)
    assert (plan.workers[0].cpus, plan.workers[0].communication_cpus) == ((0,), (1,))


@pytest.mark.parametrize(
    ("workers", "gpus", "more", "told"),
    [
        (1, 2, {}, "GPUs for 2 workers, of which there are only 1"),
        ("numa", 2, {}, "say how many workers, 2 or more"),
        (2, 2, {"gpu_host_cores": 0}, "0 cores beside each GPU asked for: use 1 or more"),
        (5, 5, {}, "5 workers with a GPU asked for, but there are only 4 tiles"),
        (2, 2, {"gpu_host_cores": 3}, "after 1 worker with a GPU 1 core are left"),
        (3, 2, {}, "2 workers with a GPU would have all cores, 1 worker without one none"),
        (5, 1, {}, "4 workers asked for, but the allowed cpus 2-3 (1 worker with a GPU have"),
    ],
)
def test_what_there_is_no_room_for_is_refused(
    machine: Machine, workers: int, gpus: int, more: dict[str, int], told: str
) -> None:
    topology = machine(nodes=(4,))
    with pytest.raises(PlacementError) as refused:
        _place(topology, workers, _gpus(topology, *[0] * gpus), **more)
    assert told in str(refused.value)


@given(data=st.data())
def test_no_core_is_given_twice_and_each_worker_has_some(
    machine: Machine, data: st.DataObject
) -> None:
    nodes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    topology = machine(nodes=tuple(nodes), tile=data.draw(st.sampled_from((0, 2))))
    workers = data.draw(st.integers(1, 6))
    of = st.none() | st.integers(0, len(nodes) - 1)
    near = data.draw(st.lists(of, min_size=1, max_size=workers))
    gpus = [gpu if data.draw(st.booleans()) else None for gpu in _gpus(topology, *near)]
    cores = data.draw(st.none() | st.integers(1, 3))
    try:
        plan = _place(topology, workers, gpus, gpu_host_cores=cores)
    except PlacementError:
        return
    given_out = [cpu for worker in plan.workers for cpu in worker.all_cpus]
    assert len(set(given_out)) == len(given_out)
    assert sorted((*given_out, *plan.idle_cpus)) == list(topology.cpus)
    assert all(worker.cpus for worker in plan.workers)
    assert [bool(each.gpu) for each in plan.workers[: len(gpus)]] == [
        gpu is not None for gpu in gpus
    ]
    if not all(gpus) or len(gpus) < workers:
        assert not plan.idle_cpus


def test_a_worker_sees_its_own_gpu_first() -> None:
    first, second, amd = _gpu(0), _gpu(1), replace(_gpu(2), vendor="AMD")
    gpus = (first, None, second, amd)
    assert visible_to(second, gpus) == ("GPU-1", "GPU-0")
    assert visible_to(amd, gpus) == ()
    assert visible_to(first, (first, _gpu(3, uuid=""))) == ()


def test_a_part_of_a_gpu_is_seen_alone() -> None:
    parts = _gpu(0, uuid="MIG-a"), _gpu(0, uuid="MIG-b")
    assert [visible_to(part, parts) for part in parts] == [("MIG-a",), ("MIG-b",)]
