from __future__ import annotations

import os
import threading

import pytest

from affinity import Placement, allowed_cpus, main_thread_mask_kept
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from knltrain.clocks import Clock
from knltrain.exchange.strategies.background import Background


def test_work_goes_on_beside_until_it_is_waited_for() -> None:
    background, go, done = Background("beside", Clock()), threading.Event(), []

    def work() -> None:
        assert go.wait(20)
        done.append(threading.current_thread().name)

    background.begin(work)
    assert not done
    go.set()
    background.wait()
    assert len(done) == 1
    assert done[0].startswith("beside")
    background.wait()  # nothing is left to do
    background.close()


def test_work_is_done_in_order_and_not_after_a_failure() -> None:
    background, go, done = Background("beside", Clock()), threading.Event(), []
    background.begin(lambda: done.append(go.wait(20)))
    background.begin(lambda: done.append(len(done)))
    go.set()
    background.wait()
    assert done == [True, 1]
    background.begin(lambda: [][1])  # type: ignore[func-returns-value]
    with pytest.raises(IndexError):
        background.wait()
    background.begin(lambda: done.append(2))
    background.wait()
    assert done == [True, 1, 2]
    background.close()


def test_what_the_work_could_not_do_is_raised_once() -> None:
    background = Background("beside", Clock())
    background.begin(lambda: [][1])  # type: ignore[func-returns-value]
    with pytest.raises(IndexError):
        background.wait()
    background.wait()
    background.close()


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("reserved", [False, True])
def test_thread_runs_on_reserved_cores_or_on_all_of_its_worker(
    reserved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = allowed_cpus()[:2]
    place = Placement(0, (first, second), 2, ())
    if reserved:
        place = Placement(0, (first,), 1, (), communication_cpus=(second,))
    monkeypatch.setenv(PLACEMENT_VARIABLE, encode_placement(place))
    found: list[set[int]] = []
    with main_thread_mask_kept():
        os.sched_setaffinity(0, {first})  # as a pinned main thread
        background = Background("beside", Clock())
        background.begin(lambda: found.append(os.sched_getaffinity(0)))
        background.wait()
        background.close()
    assert found == [{second} if reserved else {first, second}]
