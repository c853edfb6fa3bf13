"""Variables for other libraries."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from knltrain.cluster.variables import (
    check_compiling_settings,
    plain_number,
    processor_settings,
    set_unless_set,
    value_of,
)
from knltrain.errors import ConfigError

NUMPY_IMPORTED = """
import os
from knltrain.cluster.variables import import_numpy_with_one_thread
import_numpy_with_one_thread()
import numpy
threads = len(os.listdir("/proc/self/task"))
print(threads, os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def test_settings_of_the_processor_are_those_that_are_set() -> None:
    given = {"NUMBA_CPU_NAME": "knl", "NUMBA_CPU_FEATURES": "", "HOME": "/"}
    assert processor_settings(given) == {"NUMBA_CPU_NAME": "knl", "NUMBA_CPU_FEATURES": ""}


@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_has_one_thread_unless_somebody_says_otherwise(given: str | None) -> None:
    """Its own threads would be there as soon as it is imported."""
    environment = {name: v for name, v in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given
    found = subprocess.run(
        [sys.executable, "-c", NUMPY_IMPORTED],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    threads = 1 if given is None else min(int(given), len(os.sched_getaffinity(0)))
    assert found.stdout.split() == [str(threads), str(given)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NUMBA_DISABLE_JIT", "1"),
        ("NUMBA_DISABLE_JIT", "-1"),
        ("NUMBA_NUM_THREADS", "0"),
        ("NUMBA_THREADING_LAYER", "opnmp"),
        ("NUMBA_CPU_NAME", "foolake"),
        ("NUMBA_CACHE_DIR", "~nosuchuser/kernels"),
    ],
)
def test_setting_that_leaves_no_kernels_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}={value}: .*expected .*unset {name}"):
        check_compiling_settings({name: value})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"NUMBA_DISABLE_JIT": "0", "NUMBA_NUM_THREADS": "3", "NUMBA_THREADING_LAYER": "OMP"},
        {"NUMBA_DISABLE_JIT": "", "NUMBA_NUM_THREADS": "many", "NUMBA_THREADING_LAYER": ""},
        {"NUMBA_OPT": "0", "NUMBA_BOUNDSCHECK": "1"},
        {"NUMBA_CACHE_DIR": "~/kernels"},
        {"NUMBA_CACHE_DIR": "", "NUMBA_CPU_NAME": ""},
        {"NUMBA_CPU_NAME": "haswell" if platform.machine() == "x86_64" else "generic"},
    ],
)
def test_setting_that_kernels_can_stand_is_left_alone(given: dict[str, str]) -> None:
    check_compiling_settings(given)


def test_variables_for_libraries_leave_alone_what_the_user_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KNLTRAIN_TEST_A", "the user's")
    monkeypatch.setenv("KNLTRAIN_TEST_B", "")
    monkeypatch.delenv("KNLTRAIN_TEST_B")
    assert value_of("KNLTRAIN_TEST_B") is None
    set_unless_set({"KNLTRAIN_TEST_A": "ours", "KNLTRAIN_TEST_B": "ours"})
    assert os.environ["KNLTRAIN_TEST_A"] == "the user's"
    assert os.environ["KNLTRAIN_TEST_B"] == "ours"
    assert value_of("KNLTRAIN_TEST_B") == "ours"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("999999999", 999_999_999)]
    + [(text, None) for text in (None, "", "²", "٣", "1_0", "-1", "+1", " 1", "9" * 10)],
)
def test_only_plain_digits_are_a_number(text: str | None, number: int | None) -> None:
    assert plain_number(text) == number
