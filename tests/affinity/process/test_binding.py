from __future__ import annotations

import mmap
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError
from affinity.process.binding import (
    allowed_cpus,
    bind_process,
    bind_thread,
    main_thread_mask_kept,
    openmp_runtimes,
    pin_own_threads,
    thread_bindings,
)


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


@contextmanager
def _pool(count: int) -> Iterator[list[int]]:
    """Ids of so many threads that wait until the end."""
    stop, ids = threading.Event(), queue.Queue[int]()

    def run() -> None:
        ids.put(threading.get_native_id())
        stop.wait()

    threads = [threading.Thread(target=run, name=f"pool {i}") for i in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield [ids.get(timeout=60) for _ in threads]
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_narrowed_thread_is_told_from_the_others() -> None:
    whole = os.sched_getaffinity(0)
    with _pool(2) as (first, second):
        os.sched_setaffinity(second, {max(whole)})
        masks = {thread["id"]: thread["cpus"] for thread in thread_bindings()}
        names = {thread["id"]: thread["name"] for thread in thread_bindings()}
    assert masks[second] == str(max(whole))
    assert masks[first] == masks[os.getpid()] == format_cpulist(whole)
    assert names[os.getpid()] == Path("/proc/self/comm").read_text(encoding="utf-8").strip()


def test_mapped_openmp_runtimes_are_listed_once_each(tmp_path: Path) -> None:
    names = ["libgomp-a34b.so.1.0.0", "libiomp5.so", "libomp.so.5", "libompd.so", "libm.so.6"]
    before = set(openmp_runtimes())
    maps = []
    for name in names:
        (tmp_path / name).write_bytes(bytes(mmap.PAGESIZE * 2))
        with (tmp_path / name).open("rb") as file:
            maps += [mmap.mmap(file.fileno(), n, prot=mmap.PROT_READ) for n in (4096, 8192)]
    found = sorted(set(openmp_runtimes()) - before)
    for mapped in maps:
        mapped.close()
    assert found == [str(tmp_path / name) for name in sorted(names[:3])]


def test_mask_is_given_back_after_a_runtime_has_taken_it() -> None:
    before = os.sched_getaffinity(0)
    with main_thread_mask_kept():
        os.sched_setaffinity(0, {min(before)})
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ImportError), main_thread_mask_kept():
        os.sched_setaffinity(0, {min(before)})
        raise ImportError
    assert os.sched_getaffinity(0) == before


def test_each_thread_of_a_pool_gets_its_core_in_order() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    cores = [[cpus[-1]], cpus, [cpus[0]]]
    with _pool(3) as ids:
        assert pin_own_threads(cores, lambda: ids) == tuple(ids)
        assert [os.sched_getaffinity(thread) for thread in ids] == [set(core) for core in cores]
    assert os.sched_getaffinity(0) == set(cpus)


def test_caller_that_computes_as_well_keeps_its_cpus() -> None:
    cpus = sorted(os.sched_getaffinity(0))

    def first_parallel_region() -> list[int]:
        os.sched_setaffinity(0, {cpus[0]})  # As OpenMP does to the thread that loads it.
        return [threading.get_native_id(), *ids]

    with _pool(1) as ids:
        assert pin_own_threads([[cpus[0]], [cpus[-1]]], first_parallel_region) == tuple(ids)
        assert os.sched_getaffinity(ids[0]) == {cpus[-1]}
    assert os.sched_getaffinity(0) == set(cpus)


@pytest.mark.parametrize("listed", [[0], [0, 1, 1], [0, 1, 2]])
def test_pool_of_another_size_is_refused_and_none_is_pinned(listed: list[int]) -> None:
    whole = os.sched_getaffinity(0)
    cores = [[min(whole)], [max(whole)]] if len(listed) != 2 else [[0]]
    with _pool(3) as ids:
        with pytest.raises(PlacementError, match=f"{len(set(listed))} threads for 2 cores"):
            pin_own_threads(cores, lambda: [ids[i] for i in listed])
        assert all(os.sched_getaffinity(thread) == whole for thread in ids)
