"""Threads of exchanges leave the core of the thread that has started them."""

from __future__ import annotations

import os
import threading

import pytest

from affinity import Placement, allowed_cpus, main_thread_mask_kept
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from knltrain.communication.communication_cores import made_there, take_place_behind


def test_what_is_made_is_returned_and_what_fails_is_raised() -> None:
    assert made_there(lambda: threading.current_thread().name).startswith("knltrain-exchange")
    with pytest.raises(ZeroDivisionError):
        made_there(lambda: 1 // 0)


def test_threads_that_are_started_there_are_where_the_place_says(
    monkeypatch: pytest.MonkeyPatch, two_cores: None
) -> None:
    cpus = sorted(allowed_cpus())
    place = Placement(0, tuple(cpus), 1, (), communication_cpus=(cpus[-1],))
    monkeypatch.setenv(PLACEMENT_VARIABLE, encode_placement(place))
    found: list[set[int]] = []

    def start() -> threading.Thread:
        thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
        thread.start()
        return thread

    with main_thread_mask_kept():
        os.sched_setaffinity(0, {cpus[0]})
        made_there(start).join()
    assert found == [{cpus[-1]}]


@pytest.mark.parametrize("keeps", [True, False])
def test_threads_without_cores_of_their_own_interrupt_none_that_computes(
    keeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus = allowed_cpus()
    place = Placement(0, cpus, 1, (), communication_cpus=cpus if keeps else ())
    monkeypatch.setenv(PLACEMENT_VARIABLE, encode_placement(place))
    expected = os.SCHED_OTHER if keeps else os.SCHED_BATCH
    assert made_there(lambda: os.sched_getscheduler(0), take_place_behind) == expected
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
