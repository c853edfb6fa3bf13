"""Kernels check no bounds: what they touch is compared with what they were given."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("memory_between_guards.py")

SLIP = """
import memory_between_guards as guards
array = guards.Guarded(at_end={}).array(5)
guards.np.lib.stride_tricks.as_strided(array, *{})[-1]
"""


@pytest.mark.slow
def test_nothing_beside_their_arrays_is_touched_by_operations() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", SCRIPT], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0, f"killed during {done.stdout.splitlines()[-1]}"


@pytest.mark.parametrize(("at_end", "where"), [(True, ((6,), (4,))), (False, ((2,), (-4,)))])
def test_a_slip_would_be_seen(at_end: bool, where: tuple[tuple[int, ...], ...]) -> None:
    code = SLIP.format(at_end, where)
    done = subprocess.run([sys.executable, "-c", code], cwd=SCRIPT.parent, check=False)
    assert done.returncode == -signal.SIGSEGV
