from __future__ import annotations

from typing import Any

import pytest


def test_operations_of_a_group_are_done_in_order(common: Any, differences: Any) -> None:
    assert differences(common, {"in"}) == []


def test_group_says_what_it_serves_and_counts_what_it_does(common: Any, backend: str) -> None:
    for found in (one["backend"] for one in common):
        assert found["devices"] == ["cpu"]
        assert (found["name"], found["counted"], found["hooks"]) == (backend, 1, False)


def test_operations_are_waited_for_whoever_asked_for_them(common: Any) -> None:
    for found in (one["backend"] for one in common):
        assert found["pending"] == [[True, True]] * 2


def test_operations_are_shown_by_the_profiler_of_torch(common: Any, backend: str) -> None:
    for found in (one["profiled"] for one in common):
        assert found[f"{backend}:all_reduce"] == [(True, [[4]])] * 2
        assert found[f"{backend}:broadcast"] == [(True, [[3]])]


def test_ranks_that_call_different_operations_are_told(start: Any, backend: str) -> None:
    if backend == "ccl":
        pytest.skip("oneCCL does not compare what the ranks call: they wait until time is up")
    ranks = start("different")
    for rank in range(2):
        kind, text = ranks.result(rank)["error"]
        assert kind == "CollectiveError"
        assert "rank 0 called all_reduce of 10 float32 (sum); rank 1 called broadcast" in text or (
            "found that the ranks called different operations" in text
        )


def test_killed_rank_is_named_to_whatever_waits(start: Any, backend: str) -> None:
    ranks = start("last_sleeps", 2)
    assert ranks.hear(1) == "asleep"
    ranks.processes[1].kill()
    found = ranks.result(0)
    text = f"rank 1 is gone: its process {ranks.processes[1].pid}"
    for name in ("work", "next", "later"):
        kind, said = found[name]
        assert kind == "PeerLost"
        assert said.startswith(text)
        assert "has ended" in said
    kind, said = found["future"]
    assert kind == "RuntimeError"
    assert f"PeerLost: {text}" in said
    kind, said = found["received"]
    assert kind == "RuntimeError" if backend == "ccl" else (kind, said) == found["work"]
    assert found["success"] is False


@pytest.mark.slow
def test_rank_that_lets_wait_is_named_when_time_is_up(start: Any, backend: str) -> None:
    ranks = start("last_sleeps_long", 2)
    assert ranks.hear(1) == "asleep"
    found = ranks.result(0)
    kind, text = found["work"]
    assert kind == "ExchangeTimeout"
    assert text.startswith("waited 2 s in vain for ")
    assert "running" in text or backend == "ccl"


@pytest.mark.slow
def test_killed_rank_ends_a_training_step(start: Any) -> None:
    ranks = start("inside_ddp", 2)
    assert ranks.hear(1) == "asleep"
    ranks.processes[1].kill()
    kind, text = ranks.result(0)["error"]
    assert kind in ("RuntimeError", "PeerLost")
    assert "rank 1 is gone" in text


@pytest.mark.slow
def test_rank_that_leaves_is_named_to_who_waits_for_it(start: Any) -> None:
    found = start("last_leaves").result(0)
    assert found["error kind"] == "PeerLost"
    assert found["text"].startswith("rank 1")
    assert found["seconds"] < 15


@pytest.mark.slow
def test_rank_that_leaves_long_after_the_others_ends_well(start: Any) -> None:
    for found in start("last_leaves_late").results():
        assert found == {}
