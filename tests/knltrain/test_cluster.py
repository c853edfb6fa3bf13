"""A worker's identity through the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knltrain.cluster import (
    WorkerIdentity,
    is_set,
    processor_settings,
    set_unless_set,
    worker_identity,
)
from knltrain.errors import RunFolderError


@pytest.mark.parametrize("segment_fds", [(5,), (5, 8), ()])
@pytest.mark.parametrize("resume", [True, False])
def test_an_identity_survives_the_environment(segment_fds: tuple[int, ...], resume: bool) -> None:
    identity = WorkerIdentity(1, 4, Path("runs/a = b"), 7, segment_fds, 16, resume)
    assert worker_identity(identity.to_environment()) == identity


def test_the_environment_of_this_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = WorkerIdentity(0, 1, Path("runs/run"), 3, (), 1, False)
    for name, value in identity.to_environment().items():
        monkeypatch.setenv(name, value)
    assert worker_identity() == identity


@pytest.mark.parametrize("missing", ["KNLTRAIN_RANK", "KNLTRAIN_SEGMENT_FDS", "KNLTRAIN_RESUME"])
def test_a_missing_variable_is_named(missing: str) -> None:
    environment = WorkerIdentity(0, 1, Path("run"), 3, (), 1, False).to_environment()
    del environment[missing]
    with pytest.raises(RunFolderError, match=f"{missing} is not set"):
        worker_identity(environment)


def test_settings_of_the_processor_are_those_that_are_set() -> None:
    given = {"NUMBA_CPU_NAME": "knl", "NUMBA_CPU_FEATURES": "", "HOME": "/"}
    assert processor_settings(given) == {"NUMBA_CPU_NAME": "knl", "NUMBA_CPU_FEATURES": ""}


def test_variables_for_libraries_leave_alone_what_the_user_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KNLTRAIN_TEST_A", "the user's")
    monkeypatch.setenv("KNLTRAIN_TEST_B", "")
    monkeypatch.delenv("KNLTRAIN_TEST_B")
    assert not is_set("KNLTRAIN_TEST_B")
    set_unless_set({"KNLTRAIN_TEST_A": "ours", "KNLTRAIN_TEST_B": "ours"})
    assert os.environ["KNLTRAIN_TEST_A"] == "the user's"
    assert os.environ["KNLTRAIN_TEST_B"] == "ours"
    assert is_set("KNLTRAIN_TEST_B")
