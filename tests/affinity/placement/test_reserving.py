from __future__ import annotations

from collections.abc import Callable

import pytest

from affinity.errors import PlacementError
from affinity.placement.place import physical_cores
from affinity.placement.plan import Request, Reserve
from affinity.placement.reserving import kept_for_system, seat
from affinity.topology import Topology


def _kept(topology: Topology, reserve: Reserve) -> list[int]:
    return sorted(kept_for_system(topology, topology.cores, reserve))


def test_named_cpu_keeps_its_whole_tile(phi: Topology) -> None:
    assert _kept(phi, Reserve(os_cpus=(70,))) == [2, 3, 70, 71, 138, 139, 206, 207]


def test_cores_are_kept_on_each_package_lowest_first(xeon_max: Topology) -> None:
    # Aurora keeps cores 0 and 52 with their siblings.
    assert _kept(xeon_max, Reserve(os_cores=1)) == [0, 52, 104, 156]


def test_one_core_of_a_tile_keeps_the_other_too(phi: Topology) -> None:
    assert _kept(phi, Reserve(os_cores=1)) == [0, 1, 68, 69, 136, 137, 204, 205]


def test_named_cpus_count_as_kept_cores(xeon_max: Topology) -> None:
    assert _kept(xeon_max, Reserve(os_cpus=(5,), os_cores=1)) == [5, 52, 109, 156]


def test_kept_cores_are_chosen_among_the_allowed(xeon_max: Topology) -> None:
    cores = physical_cores(xeon_max, range(10, 20))
    assert sorted(kept_for_system(xeon_max, cores, Reserve(os_cores=2))) == [10, 11]


def test_nothing_is_kept_unless_asked(phi: Topology) -> None:
    assert _kept(phi, Reserve()) == []


def test_cpu_to_keep_that_the_machine_lacks_is_named(machine: Callable[..., Topology]) -> None:
    with pytest.raises(PlacementError, match=r"^cpu 9 asked to be kept.*only 0-3"):
        _kept(machine(), Reserve(os_cpus=(0, 9)))


def test_last_cores_communicate_and_those_before_read_data(phi: Topology) -> None:
    reserve = Reserve(communication_cores=1, data_cores=2)
    placement = seat(3, phi.cores[:6], Request(reserve=reserve))
    assert placement.rank == 3
    assert placement.communication_cpus == (5, 73, 141, 209)
    assert placement.data_cpus == (3, 4, 71, 72, 139, 140, 207, 208)
    assert placement.cores == ((0, 68, 136, 204), (1, 69, 137, 205), (2, 70, 138, 206))
    assert placement.threads == 3


def test_siblings_communicate_without_taking_a_core(phi: Topology) -> None:
    reserve = Reserve(communication_cores=2, communication_on_siblings=True)
    placement = seat(0, phi.cores[:4], Request(reserve=reserve))
    assert placement.threads == 4
    assert placement.communication_cpus == (70, 71)
    assert set(placement.communication_cpus) <= set(placement.cpus)
    two_threads = seat(0, phi.cores[:4], Request(threads_per_core=2, reserve=reserve))
    assert (two_threads.threads, two_threads.communication_cpus) == (8, (138, 139))


def test_threads_per_core_multiply_threads_and_keep_the_mask(phi: Topology) -> None:
    one, four = (seat(0, phi.cores[:2], Request(threads_per_core=n)) for n in (1, 4))
    assert (one.threads, four.threads) == (2, 8)
    assert one.cpus == four.cpus == (0, 1, 68, 69, 136, 137, 204, 205)
    assert four.threads_per_core == 4


def test_memory_follows_the_computing_cores(phi: Topology) -> None:
    placement = seat(0, phi.cores[16:20], Request(reserve=Reserve(communication_cores=2)))
    assert placement.numa_nodes == (0,)


def test_helpers_that_leave_no_core_to_compute_are_refused(phi: Topology) -> None:
    reserve = Reserve(communication_cores=1, data_cores=1)
    with pytest.raises(PlacementError) as caught:
        seat(5, phi.cores[:2], Request(reserve=reserve))
    assert str(caught.value) == (
        "worker 5 has 2 cores, of which 1 core for communication and 1 core for data would leave "
        "none to compute: use fewer workers, keep fewer cores, or put communication on siblings"
    )


def test_more_threads_than_a_core_has_are_refused(phi: Topology) -> None:
    with pytest.raises(PlacementError, match=r"^5 threads per core .* 4 allowed.*use 4 or fewer"):
        seat(0, phi.cores[:2], Request(threads_per_core=5))


def test_core_with_one_allowed_thread_limits_threads_per_core(phi: Topology) -> None:
    cores = physical_cores(phi, [0, 68, 1])
    with pytest.raises(PlacementError, match=r"1 allowed hardware thread \(cpu 1\): use 1$"):
        seat(0, cores, Request(threads_per_core=2))


def test_siblings_need_a_hardware_thread_that_does_not_compute(
    machine: Callable[..., Topology],
) -> None:
    reserve = Reserve(communication_cores=1, communication_on_siblings=True)
    with pytest.raises(PlacementError, match=r"on a sibling asked for.*cores of their own"):
        seat(0, machine().cores, Request(reserve=reserve))


def test_more_siblings_than_computing_cores_are_refused(phi: Topology) -> None:
    reserve = Reserve(communication_cores=3, communication_on_siblings=True)
    with pytest.raises(PlacementError, match=r"3 communication threads .* computes on 2 cores"):
        seat(0, phi.cores[:2], Request(reserve=reserve))
