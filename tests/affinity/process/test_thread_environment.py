from __future__ import annotations

import pytest

from affinity.process.thread_environment import (
    THREAD_PLACEMENT_VARIABLES,
    placement_environment,
    thread_count_contradictions,
    thread_environment,
)


def test_each_thread_gets_its_core() -> None:
    environment = thread_environment(2, [(0, 52), (1, 53)])
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["OMP_PLACES"] == "{0,52},{1,53}"
    assert environment["OMP_PROC_BIND"] == "close"


def test_several_threads_to_a_core_share_its_place() -> None:
    environment = thread_environment(4, [(0, 52), (1, 53)])
    assert environment["OMP_NUM_THREADS"] == "4"
    assert environment["OMP_PLACES"] == "{0,52},{1,53}"


@pytest.mark.parametrize(
    ("threads", "cores"), [(1, [(0,)]), (3, [(0,), (1,)]), (1, [(0,), (1,)]), (2, [])]
)
def test_threads_roam_when_they_do_not_fill_the_cores(
    threads: int, cores: list[tuple[int, ...]]
) -> None:
    assert not set(thread_environment(threads, cores)) & set(THREAD_PLACEMENT_VARIABLES)


def test_numbers_are_set_and_no_places() -> None:
    assert thread_environment(17) == {
        "OMP_NUM_THREADS": "17",
        "MKL_NUM_THREADS": "17",
        "OPENBLAS_NUM_THREADS": "17",
        "NUMBA_NUM_THREADS": "17",
    }


def test_placement_environment_shows_only_what_moves_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert placement_environment() == {"OMP_PROC_BIND": "close"}


def test_counts_that_agree_or_are_left_open_are_no_contradiction() -> None:
    assert thread_count_contradictions(4, thread_environment(4)) == ()
    assert thread_count_contradictions(4, {}) == ()
    assert thread_count_contradictions(4, {"OMP_NUM_THREADS": "4,2"}) == ()


def test_count_that_contradicts_is_named_with_its_cause() -> None:
    environment = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "8"}
    assert thread_count_contradictions(4, environment) == (
        "OMP_NUM_THREADS=1, but this place is for 4 threads: "
        "set OMP_NUM_THREADS=4 before the program starts",
        "NUMBA_NUM_THREADS=8, but this place is for 4 threads: "
        "set NUMBA_NUM_THREADS=4 before the program starts",
    )
    told = thread_count_contradictions(4, {"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "x"})
    assert "(torchrun sets 1 where nothing is set)" in told[0]
