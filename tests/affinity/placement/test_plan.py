"""What is asked for."""

from __future__ import annotations

from affinity.placement.plan import MemoryPlan, Need, Placement, Request, Reserve


def test_a_request_without_words_is_one_worker_on_everything_with_spilling_memory() -> None:
    request = Request()
    assert (request.workers, request.cores_per_worker, request.threads_per_core) == (1, None, 1)
    assert (request.policy, request.kind, request.needs) == ("spill", "best", ())
    assert request.reserve == Reserve()
    assert Need("weights", None).kind == "best"


def test_requests_with_the_same_words_are_the_same() -> None:
    assert Request(reserve=Reserve(os_cpus=(0,))) == Request(reserve=Reserve(os_cpus=(0,)))
    assert hash(Request(needs=(Need("data", 5),))) == hash(Request(needs=(Need("data", 5),)))


def test_all_cpus_of_a_worker_count_each_once_in_order() -> None:
    place = Placement(0, (4, 2), 2, (0,), communication_cpus=(9, 4), data_cpus=(1,))
    assert place.all_cpus == (1, 2, 4, 9)


def test_a_place_without_a_word_on_memory_leaves_it_to_the_kernel() -> None:
    memory = Placement(0, (0,), 1, (0,)).memory
    assert memory == MemoryPlan()
    assert (memory.policy, memory.mode, memory.nodes, memory.hbm) == ("none", "default", (), False)
