from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError
from affinity.process.binding import allowed_cpus, bind_process, bind_thread
from affinity.process.threads import thread_bindings


def test_allowed_cpus_are_the_mask_of_this_process() -> None:
    last = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {last})
    assert allowed_cpus() == (last,)


def test_binding_moves_threads_that_already_run() -> None:
    before, first = os.sched_getaffinity(0), min(os.sched_getaffinity(0))
    stop, masks = threading.Event(), []

    def wait() -> None:
        stop.wait()
        masks.append(os.sched_getaffinity(0))
        os.sched_setaffinity(0, before)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        bind_process([first])
        bound = {entry["id"]: entry["cpus"] for entry in thread_bindings()}
    finally:
        stop.set()
        thread.join()
        bind_process(before)
    assert bound[os.getpid()] == bound[thread.native_id or 0] == str(first)
    assert masks == [{first}]


def test_one_thread_moves_and_the_others_stay() -> None:
    before, last = os.sched_getaffinity(0), max(os.sched_getaffinity(0))
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        bind_thread([last], thread.native_id or 0)
        assert os.sched_getaffinity(thread.native_id or 0) == {last}
        assert os.sched_getaffinity(0) == before
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("bind", [bind_process, bind_thread])
@pytest.mark.parametrize("unknown", [100_000, 10**30, -1])
def test_cpu_that_cannot_be_had_is_refused_and_nothing_changes(
    unknown: int, bind: Callable[[list[int]], None]
) -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(PlacementError) as caught:
        bind([min(before), unknown])
    assert str(unknown) in str(caught.value)
    assert f"may use {format_cpulist(before)}" in str(caught.value)
    assert os.sched_getaffinity(0) == before


def test_empty_set_of_cpus_is_refused() -> None:
    with pytest.raises(PlacementError, match=r"cannot run on cpus \(none\)"):
        bind_process([])
