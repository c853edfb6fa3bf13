"""What is asked for."""

from __future__ import annotations

from affinity.placement.request import Need, Request, Reserve


def test_a_request_without_words_is_one_worker_on_everything_with_spilling_memory() -> None:
    request = Request()
    assert (request.workers, request.cores_per_worker, request.threads_per_core) == (1, None, 1)
    assert (request.policy, request.kind, request.needs) == ("spill", "best", ())
    assert request.reserve == Reserve()
    assert Need("weights", None).kind == "best"


def test_requests_with_the_same_words_are_the_same() -> None:
    assert Request(reserve=Reserve(os_cpus=(0,))) == Request(reserve=Reserve(os_cpus=(0,)))
    assert hash(Request(needs=(Need("data", 5),))) == hash(Request(needs=(Need("data", 5),)))
