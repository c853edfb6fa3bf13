"""The profile of a window of a worker's steps."""

from __future__ import annotations

import json
import time

import pytest

from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.profile.exchanged import ExchangedPart
from knltrain.worker import profiling
from knltrain.worker.observer import Observer
from knltrain.worker.profiling import ProfiledRun, ProfileObserver

FACTS = {"network": {"name": "small"}}


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch):
    class Known:
        def __init__(self, threads, processes):
            assert (threads, processes) == (1, 2)

        def flops_per_second(self, _seconds):
            return 1e10

        def bytes_per_second(self, _seconds):
            return 1e9

    monkeypatch.setattr(profiling, "MachineBounds", Known)


def profile(tmp_path, steps):
    def described(part):
        return ExchangedPart((f"layer at {part.start}",), 4 * (part.stop - part.start), 0, 0)

    run = ProfiledRun(FACTS, 4, 1, 1, 2, 1, (4, 20), described)
    return ProfileObserver(tmp_path, steps, run)


def test_steps_after_the_first_ones_are_profiled(make_worker, easgd, tmp_path):
    worker = make_worker(easgd(), steps=9, observers=[profile(tmp_path, 5)])
    worker.run()
    found = json.loads((tmp_path / "profile.json").read_text())
    assert (found["window"]["first_step"], found["window"]["steps"]) == (3, 5)
    assert found["network"] == {"name": "small"}
    assert worker.clocks.batch.watch is worker.clocks.update.watch is None


class Sleeper(Observer):
    """Takes a while after each step; it is told before the profile is."""

    def step_done(self, *_):
        time.sleep(0.02)


def test_what_is_no_part_of_a_step_is_its_rest(make_worker, easgd, tmp_path):
    make_worker(easgd(), steps=8, observers=[Sleeper(), profile(tmp_path, 5)]).run()
    found = json.loads((tmp_path / "profile.json").read_text())
    (rest,) = (each["seconds"] for each in found["parts"] if each["name"] == "rest")
    assert 0.02 <= rest <= found["step_seconds"]["mean"]


def test_setting_up_the_profile_is_in_no_step(make_worker, easgd, tmp_path, monkeypatch):
    made = profiling._Window.__init__
    monkeypatch.setattr(
        profiling._Window,
        "__init__",
        lambda *arguments: (time.sleep(2), made(*arguments))[1],
    )
    make_worker(easgd(), steps=8, observers=[profile(tmp_path, 5)]).run()
    found = json.loads((tmp_path / "profile.json").read_text())
    assert found["window"]["thirds"][0] < 0.9  # of two steps, one of them would have two seconds


def run_of_two(in_threads, make_worker, method, tmp_path, initial, steps, window, **options):
    def run(transport):
        folder = tmp_path / str(transport.rank)
        folder.mkdir()
        observers = [*options.get("first", {}).get(transport.rank, ()), profile(folder, window)]
        with make_worker(
            method,
            transport=transport,
            steps=steps,
            observers=observers,
            termination=options.get("termination", "each"),
        ) as worker:
            worker.run()
        return (folder / "profile.json").exists(), worker.step

    return in_threads(initial.size, 2, run)


def test_all_workers_are_in_the_profile_of_rank_0(
    make_worker, easgd, initial, in_threads, tmp_path
):
    ends = run_of_two(in_threads, make_worker, easgd(), tmp_path, initial, 8, 4)
    assert [is_written for is_written, _ in ends] == [True, False]
    found = json.loads((tmp_path / "0/profile.json").read_text())
    assert [each["rank"] for each in found["ranks"]] == [0, 1]
    assert sum(each["last_share"] for each in found["ranks"]) == 1
    assert 0 < found["efficiency"]["parallel"] <= 1.05


def test_a_worker_that_does_fewer_steps_than_the_others_holds_nobody_up(
    make_worker, easgd, initial, in_threads, tmp_path
):
    """With aligned termination all end together, wherever they are."""
    method = Method("easgd", easgd().rule, AsynchronousStrategy, 1, "first_come")
    ends = run_of_two(
        in_threads, make_worker, method, tmp_path, initial, 12, 9,
        termination="average", first={1: [Sleeper()]},
    )  # fmt: skip
    (is_written, quick), (_, slow) = ends
    assert quick > 12 > slow
    if is_written:
        found = json.loads((tmp_path / "0/profile.json").read_text())
        assert [each["steps"] for each in found["ranks"]] == [9, slow - 3]
    else:
        assert slow <= 3
