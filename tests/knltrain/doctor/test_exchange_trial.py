from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from affinity import Placement, Plan, physical_cores, read_topology
from knltrain.doctor import exchange_trial
from knltrain.doctor.exchange_trial import self_test


@pytest.fixture(autouse=True)
def _no_file_left_open() -> Iterator[None]:
    files, mask = set(os.listdir("/proc/self/fd")), os.sched_getaffinity(0)  # noqa: PTH208
    yield
    os.sched_setaffinity(0, mask)
    assert set(os.listdir("/proc/self/fd")) == files  # noqa: PTH208


def test_two_workers_exchange_on_this_machine() -> None:
    cores = physical_cores(read_topology(), os.sched_getaffinity(0))
    result = self_test()
    assert (result.ok, result.reason, result.workers) == (True, "", min(2, len(cores)))
    assert result.seconds > 0


def test_on_a_single_core_one_worker_exchanges_with_itself() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    result = self_test()
    assert (result.ok, result.reason, result.workers) == (True, "", 1)


@pytest.mark.timeout(60)
def test_workers_that_are_not_done_in_time_are_named_and_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange_trial, "pinned_command", lambda *_, **__: ["sleep", "600"])
    result = self_test(time_limit_seconds=0.2)
    assert not result.ok
    ranks = range(result.workers)
    assert result.reason == "; ".join(f"worker {r} did not finish in time" for r in ranks)


def test_refused_cpu_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        exchange_trial, "place_workers", lambda *_: Plan((Placement(0, (99_999,), 1, (0,)),))
    )
    result = self_test()
    assert not result.ok
    assert result.reason.startswith("worker 0 ended with status 2: affinity.exec: cannot run on")


def test_shared_memory_that_cannot_be_had_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_trial, "_ELEMENTS", 2**48)
    result = self_test()
    assert not result.ok
    assert result.reason.startswith("SegmentError: ")
    assert "/dev/shm" in result.reason
    assert "nor is there a memfd" in result.reason


def test_without_room_in_shared_memory_the_workers_use_a_memfd(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exchange_trial, "_SHARED_MEMORY", tmp_path / "missing")
    result = self_test()
    assert (result.ok, result.reason) == (True, "")
    assert f"no shared memory of kind 'shm' in {tmp_path / 'missing'}" in result.no_room


def test_broken_installation_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "knltrain.exchange.transports.segment", None)
    result = self_test()
    assert (result.ok, result.workers > 0) == (False, True)
    assert "knltrain.exchange.transports.segment" in result.reason
