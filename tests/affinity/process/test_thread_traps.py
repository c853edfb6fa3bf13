"""What numerical libraries do to cpus and threads, in real processes, and that we come out of it.

Each trap is shown first as it is without us, so that a library that mends its ways is noticed.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from affinity.cpulist import format_cpulist
from affinity.exec import pinned_command, worker_command
from affinity.placement.plan import Placement
from affinity.process.thread_environment import (
    THREAD_COUNT_VARIABLES,
    THREAD_PLACEMENT_VARIABLES,
    thread_environment,
)

RunPython = Callable[..., str]
ALLOWED = sorted(os.sched_getaffinity(0))
NO_PLACES = dict.fromkeys(THREAD_PLACEMENT_VARIABLES, "")

needs_two_cpus = pytest.mark.skipif(len(ALLOWED) < 2, reason="one cpu cannot be told from all")
needs_gomp = pytest.mark.skipif(
    ctypes.util.find_library("gomp") is None, reason="GNU's OpenMP runtime is not installed"
)
needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="Numba is not installed"
)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)

LOAD_OPENMP = """
import ctypes, ctypes.util, os, subprocess, sys
from affinity.process.binding import main_thread_mask_kept
def cpus_of_a_child():
    show = "import os; print(len(os.sched_getaffinity(0)))"
    return subprocess.run([sys.executable, "-c", show], capture_output=True, text=True).stdout
"""

PARALLEL = """
import json, os, sys, threading
import numba, numpy
@numba.njit(parallel=True)
def work(values):
    for i in numba.prange(values.size):
        values[i] += 1
"""


@needs_gomp
@needs_two_cpus
def test_openmp_that_places_threads_leaves_children_one_cpu_unless_the_mask_is_kept(
    run_python: RunPython,
) -> None:
    load = "ctypes.CDLL(ctypes.util.find_library('gomp'))"
    places = thread_environment(2, [ALLOWED[:1], ALLOWED[1:]])
    trapped = run_python(f"{LOAD_OPENMP}{load}\nprint(cpus_of_a_child())", **places)
    assert int(trapped) == 1
    kept = f"{LOAD_OPENMP}with main_thread_mask_kept():\n    {load}\nprint(cpus_of_a_child())"
    assert int(run_python(kept, **places)) == len(ALLOWED)


@needs_two_cpus
@pytest.mark.parametrize("runtime", ["gomp", "iomp5"])
def test_openmp_threads_are_on_their_cores_and_the_main_thread_has_its_cpus_back(
    runtime: str, run_python: RunPython
) -> None:
    library = ctypes.util.find_library(runtime)
    if library is None:
        pytest.skip(f"the OpenMP runtime lib{runtime} is not installed")
    script = (
        "import ctypes, os\n"
        "from affinity.process.binding import main_thread_mask_kept, thread_bindings\n"
        "with main_thread_mask_kept():\n"
        f"    openmp = ctypes.CDLL({library!r})\n"
        "    region = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)\n"
        "    openmp.GOMP_parallel(region, None, 2, 0)\n"
        "print(*(thread['cpus'] for thread in thread_bindings()))"
    )
    first, last = ALLOWED[0], ALLOWED[-1]
    masks = run_python(script, **NO_PLACES | thread_environment(2, [[first], [last]])).split()
    assert masks == [format_cpulist(ALLOWED), str(last)]


@pytest.mark.slow
@needs_numba
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_numbas_threads_are_pinned_from_inside_its_pool(layer: str, run_python: RunPython) -> None:
    script = f"""{PARALLEL}
import ctypes
from affinity.process.binding import pin_own_threads, thread_bindings
native_id = ctypes.CDLL(None).gettid
native_id.argtypes, native_id.restype = (), ctypes.c_int
@numba.njit(parallel=True)
def ids_of_pool(ids):
    for _ in numba.prange(ids.size):
        ids[numba.get_thread_id()] = native_id()
def thread_ids():
    ids = numpy.zeros(2, numpy.int64)
    ids_of_pool(ids)
    return ids.tolist()
first, last = {ALLOWED[0]}, {ALLOWED[-1]}
pinned = pin_own_threads([[first], [last]], thread_ids)
masks = {{thread["id"]: thread["cpus"] for thread in thread_bindings()}}
work(numpy.zeros(1000))
print(json.dumps([[masks[i] for i in pinned], len(os.sched_getaffinity(0)),
                  masks[os.getpid()], numba.threading_layer()]))
"""
    counts = {**thread_environment(2), **NO_PLACES, "NUMBA_THREADING_LAYER": layer}
    masks, own, main, used = json.loads(run_python(script, **counts))
    # OpenMP's first thread is the one that calls, and that keeps all its cpus.
    expected = [str(ALLOWED[0]), str(ALLOWED[-1])][1 if layer == "omp" else 0 :]
    assert (masks, own, used) == (expected, len(ALLOWED), layer)
    assert len(ALLOWED) == 1 or main not in expected


@needs_numba
@needs_torch
@needs_two_cpus
@pytest.mark.slow
def test_numba_resets_torchs_thread_count_to_its_own_so_both_get_the_same(
    run_python: RunPython,
) -> None:
    script = (
        f"{PARALLEL}\nimport torch\n"
        "if sys.argv[1:]: torch.set_num_threads(1)\n"
        "before = torch.get_num_threads()\n"
        "work(numpy.zeros(1000))\n"
        "print(before, torch.get_num_threads(), numba.get_num_threads())"
    )
    two = {**thread_environment(2), "NUMBA_THREADING_LAYER": "omp", **NO_PLACES}
    assert run_python(script, "only torch", **two).split() == ["1", "2", "2"]
    one = {**thread_environment(1), "NUMBA_THREADING_LAYER": "omp", **NO_PLACES}
    assert run_python(script, **one).split() == ["1", "1", "1"]


@needs_numba
@needs_torch
@needs_two_cpus
@pytest.mark.slow
def test_torch_and_numba_count_the_threads_of_the_place_not_the_machines_cores() -> None:
    script = (
        "import numba, os, torch\n"
        "print(torch.get_num_threads(), numba.get_num_threads(), len(os.sched_getaffinity(0)))"
    )
    for cpus, threads in ((ALLOWED[-1:], 1), (ALLOWED[:2], 2), (ALLOWED[:2], 1)):
        placement = Placement(0, tuple(cpus), threads, (0,))
        result = subprocess.run(
            worker_command([sys.executable, "-c", script], placement),
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.stdout.split() == [str(threads), str(threads), str(len(cpus))]


@needs_torch
@pytest.mark.slow
def test_torchrun_sets_one_thread_and_the_launcher_sets_those_of_the_place(
    run_python: RunPython, tmp_path: Path
) -> None:
    inner = tmp_path / "inner.py"
    inner.write_text(
        "import os, pathlib, sys\n"
        "from affinity.process.thread_environment import thread_count_contradictions\n"
        "told = f\"{os.environ['OMP_NUM_THREADS']} {len(thread_count_contradictions(2))}\"\n"
        "pathlib.Path(sys.argv[1], os.environ['RANK']).write_text(told)\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(inner), str(tmp_path)]
    placed = pinned_command(command, ALLOWED, thread_environment(2))
    outer = tmp_path / "outer.py"
    outer.write_text(f"import os\nos.execv({placed[0]!r}, {placed!r})\n", encoding="utf-8")
    open_counts = {**dict.fromkeys(THREAD_COUNT_VARIABLES, ""), **NO_PLACES}
    for script, told in ((inner, "1 1"), (outer, "2 0")):
        arguments = ["--standalone", "--nproc-per-node=2", str(script), str(tmp_path)]
        run = "import runpy; runpy.run_module('torch.distributed.run', run_name='__main__')"
        run_python(run, *arguments, **open_counts)
        assert [(tmp_path / rank).read_text(encoding="utf-8") for rank in "01"] == [told, told]


@pytest.mark.slow
@needs_numba
@needs_gomp
def test_fork_after_openmp_kills_the_child_and_a_started_process_works(
    run_python: RunPython,
) -> None:
    placed = worker_command(
        [sys.executable, "-c", f"{PARALLEL}\nwork(numpy.zeros(9)); print('works')"],
        Placement(0, tuple(ALLOWED), 2, (0,)),
    )
    script = f"""{PARALLEL}
import subprocess
work(numpy.zeros(1000))
assert numba.threading_layer() == "omp"
child = os.fork()
if child == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    work(numpy.zeros(1000))
    os._exit(0)
forked = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
started = subprocess.run({placed!r}, capture_output=True, text=True)
print(forked, started.stdout.strip())
"""
    counts = {**thread_environment(2), **NO_PLACES, "NUMBA_THREADING_LAYER": "omp"}
    assert run_python(script, **counts).split() == ["-15", "works"]
