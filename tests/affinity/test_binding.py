from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from affinity.binding import (
    THREAD_PLACEMENT_VARIABLES,
    allowed_cpus,
    bind_process,
    observed_binding,
    placement_environment,
    thread_environment,
)
from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError


@pytest.fixture(autouse=True)
def _mask_restored() -> Iterator[None]:
    mask = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, mask)


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
        bound = {entry["id"]: entry["cpus"] for entry in observed_binding()["threads"]}
    finally:
        stop.set()
        thread.join()
        bind_process(before)
    assert bound[os.getpid()] == bound[thread.native_id or 0] == str(first)
    assert masks == [{first}]


@pytest.mark.parametrize("unknown", [100_000, 10**30, -1])
def test_cpu_that_cannot_be_had_is_refused_and_nothing_changes(unknown: int) -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(PlacementError) as caught:
        bind_process([min(before), unknown])
    assert str(unknown) in str(caught.value)
    assert f"may use {format_cpulist(before)}" in str(caught.value)
    assert os.sched_getaffinity(0) == before


def test_empty_set_of_cpus_is_refused() -> None:
    with pytest.raises(PlacementError, match=r"cannot run on cpus \(none\)"):
        bind_process([])


def test_thread_environment_gives_each_thread_its_core() -> None:
    environment = thread_environment(2, [(0, 52), (1, 53)])
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["OMP_PLACES"] == "{0,52},{1,53}"
    assert environment["OMP_PROC_BIND"] == "close"


@pytest.mark.parametrize(("threads", "cores"), [(1, [(0,)]), (3, [(0,), (1,)])])
def test_threads_roam_when_they_are_not_one_per_core(
    threads: int, cores: list[tuple[int, ...]]
) -> None:
    assert not set(thread_environment(threads, cores)) & set(THREAD_PLACEMENT_VARIABLES)


def test_thread_environment_sets_numbers_and_no_places() -> None:
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


def test_observed_binding_tells_a_narrower_thread_from_its_process() -> None:
    script = (
        "import json, os, threading\n"
        "from affinity.binding import observed_binding\n"
        "stop, ready = threading.Event(), threading.Event()\n"
        "def narrow():\n"
        "    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
        "    ready.set()\n"
        "    stop.wait()\n"
        "thread = threading.Thread(target=narrow)\n"
        "thread.start(); ready.wait()\n"
        "print(json.dumps([thread.native_id, observed_binding()]))\n"
        "stop.set()\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    narrow, observed = json.loads(output)
    masks = {thread["id"]: thread["cpus"] for thread in observed["threads"]}
    assert observed["cpus"] == format_cpulist(os.sched_getaffinity(0))
    assert masks.pop(narrow) == str(max(os.sched_getaffinity(0)))
    assert set(masks.values()) == {observed["cpus"]}
    assert all(thread["name"] for thread in observed["threads"])


def test_observed_cpus_are_those_of_all_threads_when_the_main_one_is_narrowed() -> None:
    whole, stop = os.sched_getaffinity(0), threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        os.sched_setaffinity(0, {min(whole)})
        assert observed_binding()["cpus"] == format_cpulist(whole)
    finally:
        stop.set()
        thread.join()


def test_mapped_openmp_runtimes_are_listed_once_each(tmp_path: Path) -> None:
    names = ["libgomp-a34b.so.1.0.0", "libiomp5.so", "libomp.so.5", "libompd.so", "libm.so.6"]
    before = set(observed_binding()["openmp_runtimes"])
    maps = []
    for name in names:
        (tmp_path / name).write_bytes(bytes(mmap.PAGESIZE * 2))
        with (tmp_path / name).open("rb") as file:
            maps += [mmap.mmap(file.fileno(), n, prot=mmap.PROT_READ) for n in (4096, 8192)]
    found = sorted(set(observed_binding()["openmp_runtimes"]) - before)
    for mapped in maps:
        mapped.close()
    assert found == [str(tmp_path / name) for name in sorted(names[:3])]
