"""The profile of a window of a worker's steps."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from knltrain.backends.region import Region
from knltrain.clocks import UNOBSERVED
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.profile.costs import UpdateCost
from knltrain.profile.exchanged import ExchangedPart
from knltrain.worker import profiling
from knltrain.worker.observer import Observer
from knltrain.worker.profiling import ProfiledRun, ProfileObserver

FACTS = {"network": {"name": "small"}}
UPDATES = {"out": UpdateCost(4, 20)}


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch):
    class Known:
        def __init__(self, threads, processes, precision="float32"):
            self.flops = {"float32": 1e10, "bfloat16": 2e10}[precision]
            assert (threads, processes) == (1, 2)

        def flops_per_second(self, _seconds):
            return self.flops

        def bytes_per_second(self, _seconds):
            return 1e9

    monkeypatch.setattr(profiling, "MachineBounds", Known)


def profile(tmp_path, steps):
    def described(part, method, step):
        assert method.period == 1
        size = 4 * (part.stop - part.start)
        return ExchangedPart((f"layer at {part.start}",), size, 0, size / step, 0, 2)

    run = ProfiledRun(FACTS, 4, 1, 1, 2, 1, UPDATES, described)
    return ProfileObserver(tmp_path, steps, run)


def test_steps_after_the_first_ones_are_profiled(make_worker, easgd, tmp_path):
    worker = make_worker(easgd(), steps=12, observers=[profile(tmp_path, 5)])
    worker.run()
    found = json.loads((tmp_path / "profile.json").read_text())
    assert (found["window"]["first_step"], found["window"]["steps"]) == (6, 5)
    assert found["network"] == {"name": "small"}
    assert found["profile_steps"] == 5
    assert worker.clocks.batch.watch is worker.clocks.update.watch is None


def test_the_machine_is_measured_in_the_precision_of_products(make_worker, easgd, tmp_path):
    plain, rounded = profile(tmp_path / "float32", 2), profile(tmp_path / "bfloat16", 2)
    rounded._run = replace(rounded._run, rounds_products=True)
    for name, observer in (("float32", plain), ("bfloat16", rounded)):
        (tmp_path / name).mkdir()
        make_worker(easgd(), steps=8, observers=[observer]).run()
        (machine,) = json.loads((tmp_path / name / "profile.json").read_text())["machine"]
        assert machine["sgemm_flops_per_second"] == 1e10
        expected = {"float32": 1e10, "bfloat16": 2e10}[name]
        assert machine["product_flops_per_second"] == expected
        assert machine["link_bytes_per_second"] is None


def test_of_a_try_the_slowest_node_counts_and_the_best_of_a_few_tries_is_the_link_s(
    make_worker, easgd, initial, in_threads, tmp_path, monkeypatch
):
    rates = {0: [1e8, 3e8, 5e8, 1e8], 1: [9e8, 4e8, 2e8, 1e8]}
    monkeypatch.setattr(NodeShared, "link_rate", lambda team, _size: rates[team.rank].pop(0))
    run_of_two(in_threads, make_worker, easgd(), tmp_path, initial, 10, 2)
    machine = json.loads((tmp_path / "0/profile.json").read_text())["machine"]
    assert [each["link_bytes_per_second"] for each in machine] == [3e8, 3e8]


def test_workers_that_do_not_send_have_the_link_of_those_that_do(
    make_worker, easgd, initial, in_threads, tmp_path, monkeypatch
):
    monkeypatch.setattr(NodeShared, "link_rate", lambda team, _size: None if team.rank else 1e8)
    run_of_two(in_threads, make_worker, easgd(), tmp_path, initial, 10, 2)
    machine = json.loads((tmp_path / "0/profile.json").read_text())["machine"]
    assert [each["link_bytes_per_second"] for each in machine] == [1e8, 1e8]


def test_all_records_are_counted(make_worker, easgd, softmax_backend, tmp_path, monkeypatch):
    """Also marks of what does not count. Clocks: batch, gradient, update, 4 moments to exchange."""

    def observe(backend, marks):
        backend.marks = marks

    def computed(backend, *given):
        for number in (-1, 0, 1):
            getattr(backend, "marks", UNOBSERVED).mark(number)
        return compute(backend, *given)

    compute = type(softmax_backend).loss_and_gradient
    monkeypatch.setattr(type(softmax_backend), "loss_and_gradient", computed)
    monkeypatch.setattr(type(softmax_backend), "observe", observe, raising=False)
    monkeypatch.setattr(
        type(softmax_backend),
        "regions",
        [Region(name, "forward", "dense") for name in ("one", "other")],
        raising=False,
    )
    make_worker(easgd(), steps=10, observers=[profile(tmp_path, 4)]).run()
    over = json.loads((tmp_path / "profile.json").read_text())["overhead"]
    assert (over["marks_per_step"], over["watches_per_step"]) == (3, 7)
    assert over["watch_seconds"] > 0 < over["mark_seconds"]


class Sleeper(Observer):
    """Takes a while after each step; it is told before the profile is."""

    def step_done(self, *_):
        time.sleep(0.02)


def test_what_is_no_part_of_a_step_is_its_rest(make_worker, easgd, tmp_path):
    make_worker(easgd(), steps=11, observers=[Sleeper(), profile(tmp_path, 5)]).run()
    found = json.loads((tmp_path / "profile.json").read_text())
    (rest,) = (each["seconds"] for each in found["parts"] if each["name"] == "rest")
    assert 0.02 <= rest <= found["step_seconds"]["mean"]


class Beside(Observer):
    """Exchanges beside all the time; it is told before the profile is."""

    def started(self, worker):
        worker.clocks.beside.__enter__()

    def step_done(self, worker, *_):
        worker.clocks.beside.__exit__()
        worker.clocks.beside.__enter__()


def test_an_exchange_beside_goes_on_for_no_longer_than_a_step(
    make_worker, easgd, tmp_path, monkeypatch
):
    add = profiling._Window._ready_spans
    monkeypatch.setattr(
        profiling._Window, "_ready_spans", lambda *given: (time.sleep(0.05), add(*given))[1]
    )
    make_worker(easgd(), steps=11, observers=[Beside(), profile(tmp_path, 5)]).run()
    found = json.loads((tmp_path / "profile.json").read_text())
    step = found["step_seconds"]["mean"]
    assert 0.5 * step < found["communication"]["union_seconds"] <= 1.01 * step < 0.05
    (check,) = (each for each in found["checks"] if each["name"].startswith("computing and exp"))
    assert check["passed"]


def test_setting_up_the_profile_is_in_no_step(make_worker, easgd, tmp_path, monkeypatch):
    made = profiling._Window.__init__
    monkeypatch.setattr(
        profiling._Window,
        "__init__",
        lambda *arguments: (time.sleep(2), made(*arguments))[1],
    )
    make_worker(easgd(), steps=11, observers=[profile(tmp_path, 5)]).run()
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
    ends = run_of_two(in_threads, make_worker, easgd(), tmp_path, initial, 11, 4)
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
        in_threads, make_worker, method, tmp_path, initial, 15, 9,
        termination="average", first={1: [Sleeper()]},
    )  # fmt: skip
    (is_written, quick), (_, slow) = ends
    assert quick > 15 > slow
    if is_written:
        found = json.loads((tmp_path / "0/profile.json").read_text())
        assert [each["steps"] for each in found["ranks"]] == [9, slow - 6]
    else:
        assert slow <= 6


def test_all_parameters_that_are_exchanged_at_once_have_a_row(
    make_worker, easgd, initial, in_threads, tmp_path
):
    """Nothing computes beside the exchange: it is exposed, and moves when it does not wait."""
    run_of_two(in_threads, make_worker, easgd(), tmp_path, initial, 9, 5)
    found = json.loads((tmp_path / "0/profile.json").read_text())
    (row,) = found["exchanges"]
    assert row["layers"] == ["layer at 0"]
    assert row["packed_bytes"] == 4 * initial.size
    assert row["exchanged_bytes"] == row["packed_bytes"] / found["window"]["first_step"]
    assert 0 < row["moving_seconds"] < row["issued_seconds"] == row["exposed_seconds"]
    assert row["issued_seconds"] == found["communication"]["union_seconds"]
    waiting = found["communication"]["exposed_wait_seconds"]
    assert row["moving_seconds"] + waiting == pytest.approx(row["issued_seconds"], rel=1e-3)


def test_without_exchanges_there_is_no_row(make_worker, no_exchange, initial, in_threads, tmp_path):
    run_of_two(in_threads, make_worker, no_exchange(2), tmp_path, initial, 8, 4)
    assert json.loads((tmp_path / "0/profile.json").read_text())["exchanges"] == []


def test_an_exchange_that_sends_while_it_waits_is_moving_all_the_time(
    make_worker, easgd, initial, in_threads, tmp_path, monkeypatch
):
    monkeypatch.setattr(SynchronousStrategy, "waits_while_moving", True)
    run_of_two(in_threads, make_worker, easgd(), tmp_path, initial, 8, 4)
    found = json.loads((tmp_path / "0/profile.json").read_text())
    (row,) = found["exchanges"]
    assert row["moving_seconds"] == row["issued_seconds"]
    assert found["communication"]["exposed_wait_seconds"] is None
