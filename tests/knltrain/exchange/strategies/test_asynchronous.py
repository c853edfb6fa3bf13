"""What a worker does at the moments of a step, against formulas in plain numbers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from quadratics import rate_at, start, target, train

from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaged_center import AveragedCenter
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.downpour import Downpour, MeanProgress
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.strategies.asynchronous import (
    AsynchronousStrategy,
    InTurnStrategy,
    OverlappedPushStrategy,
)
from knltrain.exchange.strategies.method import Method, Schedule
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.strategy import UNTOUCHED, Strategy, strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.joining import join
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.transport import Order, Transport
from knltrain.vectors import FloatArray
from vectorized_ops.reference import averages, downpour, elastic
from vectorized_ops.reference.elastic import synchronous_average

RATE, ALPHA, STEPS = 0.2, 0.3, 9


def trained(method: Method, transport: Transport | None = None) -> tuple[list[float], list[float]]:
    """A worker alone on x²/2 from 1: its local and the center after each step, all settled."""
    transport = transport or Loopback(1, method.rule.center_vectors)
    part = strategy_in(method, transport)
    transport.start_from(np.ones(1, np.float32))
    part.begin()
    locals_, centers = [], []
    for step in range(STEPS):
        gradient = transport.local.copy()
        part.gradient_ready(step)
        transport.local -= np.float32(RATE) * gradient
        part.stepped(step)
        part.settle()
        locals_.append(float(transport.local[0]))
        centers.append(float(transport.center[0]))
    part.close()
    return locals_, centers


def strategy_for(schedule: Schedule) -> type[Strategy]:
    return SynchronousStrategy if schedule == "synchronous" else AsynchronousStrategy


def check(found: tuple[list[float], list[float]], step: Callable[..., tuple[float, float]]) -> None:
    local, center = 1.0, 1.0
    for number, (got_local, got_center) in enumerate(zip(*found, strict=True)):
        local, center = step(number, local, center)
        assert got_local == pytest.approx(local, rel=1e-5)
        assert got_center == pytest.approx(center, rel=1e-5)


@pytest.mark.parametrize("schedule", ["synchronous", "first_come", "round_robin", "lock_free"])
def test_elastic_averaging_pulls_and_steps_from_the_same_parameters(schedule: Schedule) -> None:
    def by_formula(number: int, x: float, c: float) -> tuple[float, float]:
        pull = ALPHA * (x - c) if number % 2 == 0 else 0.0
        return x - RATE * x - pull, c + pull

    method = Method("easgd", EASGD(ALPHA, elastic), strategy_for(schedule), 2, schedule)
    check(trained(method), by_formula)


def test_seasgd_pulls_after_the_step_by_equations_5_to_7() -> None:
    def by_formula(number: int, x: float, c: float) -> tuple[float, float]:
        x -= RATE * x
        d = ALPHA * (x - c) if number % 2 == 1 else 0.0
        return x - d, c + d

    rule = EASGD(ALPHA, elastic)
    method = Method("seasgd", rule, OverlappedPushStrategy, 2, "first_come", "step")
    check(trained(method), by_formula)


def test_asynchronous_sgd_of_one_worker_is_sgd() -> None:
    def by_formula(number: int, x: float, c: float) -> tuple[float, float]:
        return x - RATE * x, x - RATE * x

    method = Method("async_sgd", Downpour(downpour), AsynchronousStrategy, 1, "first_come", "step")
    check(trained(method), by_formula)


def test_local_sgd_averages_every_so_many_steps() -> None:
    def by_formula(number: int, x: float, c: float) -> tuple[float, float]:
        x -= RATE * x
        return x, (x if number % 3 == 2 else c)

    rule = ModelAveraging(1, synchronous_average)
    check(trained(Method("local_sgd", rule, SynchronousStrategy, 3, after="step")), by_formula)


class Waits(Loopback):
    """A loopback whose pushes wait until they are let go."""

    def __init__(self) -> None:
        super().__init__(1)
        self.go, self.pushed_by = threading.Event(), ""

    def push(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        self.pushed_by = threading.current_thread().name
        assert self.go.wait(20)
        super().push(rule, contribution, order)


def seasgd(transport: Transport) -> Strategy:
    rule = EASGD(ALPHA, elastic)
    method = Method("seasgd", rule, OverlappedPushStrategy, 1, "first_come", "step")
    part = strategy_in(method, transport)
    transport.start_from(np.ones(1, np.float32))
    part.begin()
    return part


def test_seasgd_goes_on_while_the_update_thread_pushes() -> None:
    transport = Waits()
    part = seasgd(transport)
    transport.local[:] = 2
    part.stepped(0)  # returns although the push has not
    assert transport.local.tolist() == pytest.approx([2 - ALPHA])
    assert transport.center.tolist() == [1]
    transport.go.set()
    part.settle()
    assert transport.center.tolist() == pytest.approx([1 + ALPHA])
    assert transport.pushed_by.startswith("knltrain-update")
    part.close()


class Encodes(Loopback):
    """A loopback that keeps of each contribution what is not sent: half of it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.rest, self.encoded_by = np.zeros(size, np.float32), ""

    @property
    def residual(self) -> FloatArray:
        return self.rest

    def encode(self, rule: ExchangeRule, contribution: FloatArray) -> None:
        self.encoded_by = threading.current_thread().name
        contribution /= 2
        self.rest[:] = contribution
        if rule.takes_back:
            self.local += self.rest
            self.rest[:] = 0


def test_seasgd_takes_back_what_is_not_sent_before_the_next_gradient() -> None:
    transport = Encodes(1)
    part = seasgd(transport)
    transport.local[:] = 2
    part.stepped(0)
    assert transport.encoded_by == threading.current_thread().name
    part.settle()
    assert transport.local.tolist() == pytest.approx([2 - ALPHA / 2])
    assert transport.center.tolist() == pytest.approx([1 + ALPHA / 2])
    assert part.state() == {}
    part.close()


def test_locals_that_take_back_are_pulled_on_the_host() -> None:
    device: Any = SimpleNamespace(arithmetic=SimpleNamespace(elastic_increment=None))
    for transport, on_host in ((Loopback(1), False), (Encodes(1), True)):
        part = seasgd(transport)
        part.space = device
        assert part.touched("step", 0) == (
            ((transport.local,), (transport.local,), True) if on_host else UNTOUCHED
        )
        part.close()


def test_every_worker_keeps_what_no_local_takes_back() -> None:
    part = strategy_in(
        Method("downpour", Downpour(downpour), AsynchronousStrategy, 1, "first_come", "step"),
        Encodes(3),
    )
    assert sorted(part.state()) == ["contribution", "residual"]


def test_what_the_update_thread_could_not_do_is_raised_at_the_next_exchange() -> None:
    class Breaks(Loopback):
        def push(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
            raise ConfigError("no way")

    part = seasgd(Breaks(1))
    part.stepped(0)
    with pytest.raises(ConfigError, match="no way"):
        part.stepped(1)
    part.close()


def test_state_is_that_of_the_worker_and_at_rank_0_that_of_the_center() -> None:
    method = Method(
        "mdownpour", Downpour(downpour, 0.5), AsynchronousStrategy, 1, "first_come", "step"
    )
    part = strategy_in(method, Loopback(3, 2))
    assert {name: vector.shape for name, vector in part.state().items()} == {
        "contribution": (3,),
        "kept0": (3,),
    }
    schedules: tuple[Schedule, ...] = ("synchronous", "first_come")
    for schedule in schedules:
        plain = Method("easgd", EASGD(ALPHA, elastic), strategy_for(schedule), 1, schedule)
        assert strategy_in(plain, Loopback(3)).state() == {}


@pytest.mark.parametrize(("method", "rate"), [("adownpour", None), ("mvadownpour", 0.25)])
def test_an_average_of_the_center_is_the_model(method: str, rate: float | None) -> None:
    settings = {} if rate is None else {"averaging_rate": rate}
    found = train(method, 1, 6, **settings)
    local = start().astype(np.float64)
    average = local.copy()
    for step in range(6):
        local -= rate_at(step) * (local - target(0))
        average += (local - average) * (1 / (step + 2) if rate is None else rate)
        np.testing.assert_allclose(found.parameters[step, 0], local, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.models[step], average, rtol=1e-4, atol=1e-5)
    of_one = train(method.replace("adownpour", "asgd"), 1, 6, **settings)
    assert np.array_equal(of_one.models, found.models)


def test_the_average_counts_the_updates_of_all_workers() -> None:
    """Whoever comes first: what each of 2 workers pushes is known, as nobody moves its local."""
    method = Method(
        "adownpour",
        AveragedCenter(Downpour(downpour), None, averages),
        AsynchronousStrategy,
        schedule="first_come",
        after="step",
    )
    memory = NodeMemory(1, 2, method, "memfd")
    team = [join([os.dup(fd) for fd in memory.fds_of(rank)], rank, 20) for rank in range(2)]
    parts = [strategy_in(method, each) for each in team]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda part: part.start_from(np.ones(1, np.float32)), parts))
    for part in parts:
        part.begin()
    for step, part in enumerate([parts[0], parts[1], parts[1], parts[0]]):
        part.parameters[:] += 1
        part.stepped(step)
    # The center was 1, 2, 3, 4, 5.
    assert parts[1].model.tolist() == [3]
    assert {name: vector.tolist() for name, vector in parts[0].state().items()} == {
        "contribution": [5],
        "kept0": [3],
        "kept1": [5],
        "center": [5],
    }
    assert list(parts[1].state()) == ["contribution"]
    for part in parts:
        part.close()
    memory.close()


def test_running_statistics_move_by_the_mean_of_what_workers_push() -> None:
    rule = Downpour(downpour, 0.5, of_statistics=MeanProgress(2, 2))
    rule.statistics = (slice(1, 3),)
    method = Method("it", rule, AsynchronousStrategy, schedule="first_come", after="step")
    memory = NodeMemory(4, 2, method, "memfd")
    team = [join([os.dup(fd) for fd in memory.fds_of(rank)], rank, 20) for rank in range(2)]
    parts = [strategy_in(method, each) for each in team]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda part: part.start_from(np.ones(4, np.float32)), parts))
    for part in parts:
        part.begin()
        part.parameters[:] += 1
    for step, part in enumerate(parts):
        part.stepped(step)
    # The parameters move by 1, then by 0.5 * 1 + 1, the statistics by half of 1 each time.
    assert parts[0].model.tolist() == [3.5, 2, 2, 3.5]
    assert [part.parameters.tolist() for part in parts] == [[2, 1.5, 1.5, 2], [3.5, 2, 2, 3.5]]
    for part in parts:
        part.close()
    memory.close()


def test_workers_of_original_easgd_star_compute_one_after_another() -> None:
    computing = [0]

    class Notes(Loopback):
        def await_turn(self) -> None:
            computing[0] += 1

    method = Method(
        "original_easgd_star",
        EASGD(ALPHA, elastic),
        InTurnStrategy,
        2,
        "round_robin",
    )
    part = strategy_in(method, Notes(1))
    for step in range(4):
        part.step_begins(step)
    assert computing == [2]  # in steps 0 and 2, those with an exchange
    found = train("original_easgd_star", 3, 5, freely=True, moving_rate=0.2)
    plain = train("original_easgd", 3, 5, freely=True, moving_rate=0.2)
    assert np.array_equal(found.parameters, plain.parameters)
    assert np.array_equal(found.models[-1], plain.models[-1])
