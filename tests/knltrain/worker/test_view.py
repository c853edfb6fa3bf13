"""x"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import knltrain.worker
from knltrain.checkpoint.contents import WorkerState
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.transports.loopback import Loopback
from knltrain.worker.view import WorkerView, restore, state_of
from vectorized_ops.reference import downpour

FOLDER = Path(knltrain.worker.__file__).parent


def test_a_worker_has_all_that_others_may_know_of_it(make_worker, no_exchange) -> None:
    worker = make_worker(no_exchange(1), steps=1)
    names = {*WorkerView.__annotations__, *vars(WorkerView)} - {"__annotations__"}
    assert all(hasattr(worker, name) for name in names if not name.startswith("_"))


def test_no_other_part_of_the_package_imports_the_loop() -> None:
    importing = {
        path.name
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "knltrain.worker.loop"
    }
    assert importing == set()


@pytest.fixture
def with_velocity():
    """A method whose rule keeps a velocity beside the center, and remembers what it pulled."""
    return Method(
        "mdownpour", Downpour(downpour, 0.5), AsynchronousStrategy, 2, "first_come", "step"
    )


def copied(state):
    """The same state in memory of its own, as a file would have it."""
    vectors = {
        name: {key: each.copy() for key, each in getattr(state, name).items()}
        for name in ("optimizer", "exchange")
    }
    return replace(state, center=state.center.copy(), local=state.local.copy(), **vectors)


def test_restored_worker_goes_on_as_the_other_would_have(make_worker, with_velocity, initial):
    def worker(steps, start=None):
        transport = Loopback(initial.size, with_velocity.rule.center_vectors)
        return make_worker(with_velocity, transport=transport, steps=steps, start=start)

    whole, stopped = worker(7), worker(3)
    whole.run()
    stopped.run()
    resumed = worker(7, copied(state_of(stopped)))
    resumed.run()
    assert set(state_of(whole).exchange) == {"contribution", "kept0"}
    for name in ("center", "local"):
        np.testing.assert_array_equal(
            getattr(state_of(resumed), name), getattr(state_of(whole), name)
        )
    for name in ("optimizer", "exchange"):
        ours, theirs = getattr(state_of(resumed), name), getattr(state_of(whole), name)
        assert ours.keys() == theirs.keys()
        for key in ours:
            np.testing.assert_array_equal(ours[key], theirs[key])


def test_state_is_views_of_the_worker(make_worker, easgd):
    worker = make_worker(easgd())
    state = state_of(worker)
    for vector, own in (
        (state.local, worker.parameters),
        (state.center, worker.model),
        (state.optimizer["velocity"], worker.optimizer.state["velocity"]),
    ):
        assert np.shares_memory(vector, own)


def test_what_a_state_does_not_say_begins_as_in_a_new_run(make_worker, with_velocity, initial):
    transport = Loopback(initial.size, with_velocity.rule.center_vectors)
    worker = make_worker(with_velocity, transport=transport)
    for vector in (*worker.optimizer.state.values(), *worker.strategy.state().values()):
        vector.fill(5)
    kept = {"kept0": np.full_like(initial, 3)}
    restore(worker, WorkerState(0, initial, initial + 1, {}, {"gradient": 2.0}, kept))
    assert not worker.optimizer.state["velocity"].any()
    found = worker.strategy.state()
    np.testing.assert_array_equal(found["contribution"], initial)  # the center, as pulled
    np.testing.assert_array_equal(found["kept0"], 3)
    np.testing.assert_array_equal(worker.parameters, initial + 1)
    assert worker.clocks.gradient.seconds == 2.0
