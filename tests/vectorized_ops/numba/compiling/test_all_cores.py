"""Kernels compiled by forks: in processes of their own, as forks of pytest's would be too many."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from affinity.process.other_process import children

ROOT = Path(__file__).parents[4]
KERNELS = """
import gc, os, sys, time
import numpy as np
from numba import types
from numba.extending import intrinsic
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.all_cores import compile_missing
from vectorized_ops.numba.compiling.recording import recording
from vectorized_ops.numba.compiling.journal import JOURNAL

@intrinsic
def pausing(_typing):
    def generate(context, *_):
        time.sleep(float(os.environ["PAUSE"]))
        return context.get_dummy_value()
    return types.void(), generate

def factory(number):
    @kernel
    def multiple(values):
        pausing()
        total = 0.0
        for i in range(len(values)):
            total += values[i] * number
        return total
    return multiple

@kernel
def wrong(values):
    return values.nothing_of_the_kind

kernels, values = [factory(number) for number in range(1, 9)], np.ones(3)
with recording() as recorder:
    for each in (*kernels[:4], wrong, *kernels[4:]):
        each(values)
"""
COMPILE = f"""{KERNELS}
told = list(compile_missing(recorder.wanted, int(sys.argv[1])))
assert gc.isenabled()
before = len(JOURNAL.made)
assert [one.done for one in told] == list(range(1, len(told) + 1))
results = [each(values) for each in kernels]
assert results == [3.0 * number for number in range(1, 9)], results
compiled = sum(one.compiled for one in JOURNAL.made[before:])
print(sum(one.made.compiled for one in told), len(told), {{one.total for one in told}}, compiled)
"""
BE_KILLED = f"""{KERNELS}
print("ready", flush=True)
list(compile_missing(recorder.wanted, 3))
"""


def start(program: str, folder: Path, *words: str, pause: float = 0.0) -> subprocess.Popen[str]:
    settings = {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder), "PAUSE": str(pause)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate()
    assert process.returncode == 0
    return text


@pytest.mark.slow
def test_forks_compile_what_is_missing_and_leave_out_what_cannot_be_compiled(
    tmp_path: Path,
) -> None:
    assert said(start(COMPILE, tmp_path, "3")) == "8 8 {9} 0\n"
    assert said(start(COMPILE, tmp_path, "3")) == "0 0 set() 0\n"


@pytest.mark.slow
def test_processes_that_need_the_same_share_the_work(tmp_path: Path) -> None:
    both = [start(COMPILE, tmp_path, "2", pause=0.2) for _ in range(2)]
    made = [said(process).split() for process in both]
    assert sum(int(words[0]) for words in made) == 8
    assert [words[-1] for words in made] == ["0", "0"]


@pytest.mark.slow
def test_forks_end_with_the_process_that_they_work_for(tmp_path: Path) -> None:
    process = start(BE_KILLED, tmp_path, pause=30.0)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    deadline = time.time() + 60
    while len(forks := children(process.pid)) < 2 and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    while time.time() < deadline and any(map(_lives, forks)):
        time.sleep(0.01)
    assert len(forks) == 2
    assert not any(map(_lives, forks))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
