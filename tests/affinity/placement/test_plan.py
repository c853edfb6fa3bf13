"""The answer to a request."""

from __future__ import annotations

from affinity.placement.plan import MemoryPlan, Placement


def test_all_cpus_of_a_worker_count_each_once_in_order() -> None:
    place = Placement(0, (4, 2), 2, (0,), communication_cpus=(9, 4), data_cpus=(1,))
    assert place.all_cpus == (1, 2, 4, 9)


def test_a_place_without_a_word_on_memory_leaves_it_to_the_kernel() -> None:
    memory = Placement(0, (0,), 1, (0,)).memory
    assert memory == MemoryPlan()
    assert (memory.policy, memory.mode, memory.nodes, memory.hbm) == ("none", "default", (), False)
