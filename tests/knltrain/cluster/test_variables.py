"""Variables for other libraries."""

from __future__ import annotations

import os

import pytest

from knltrain.cluster import processor_settings, set_unless_set, value_of


def test_settings_of_the_processor_are_those_that_are_set() -> None:
    given = {"NUMBA_CPU_NAME": "knl", "NUMBA_CPU_FEATURES": "", "HOME": "/"}
    assert processor_settings(given) == {"NUMBA_CPU_NAME": "knl", "NUMBA_CPU_FEATURES": ""}


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
