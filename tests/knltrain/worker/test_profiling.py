"""The profile of a window of a worker's steps."""

from __future__ import annotations

import json

import pytest

from knltrain.profile.exchanged import ExchangedPart
from knltrain.worker import profiling
from knltrain.worker.profiling import ProfileObserver
from vectorized_ops.machine_bounds import Bounds

FACTS = {"network": {"name": "small"}}


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch):
    class Known:
        def __init__(self, threads):
            assert threads == 1

        def measure(self):
            return Bounds(1e10, 1e9)

    monkeypatch.setattr(profiling, "MachineBounds", Known)


def profile(tmp_path, steps):
    def described(part):
        return ExchangedPart((f"layer at {part.start}",), 4 * (part.stop - part.start), 0, 0)

    return ProfileObserver(tmp_path, steps, 1, FACTS, 1, (4, 20), described)


def test_steps_after_the_first_ones_are_profiled(make_worker, easgd, tmp_path):
    worker = make_worker(easgd(), steps=9, observers=[profile(tmp_path, 5)])
    worker.run()
    found = json.loads((tmp_path / "profile.json").read_text())
    assert (found["window"]["first_step"], found["window"]["steps"]) == (3, 5)
    parts = {each["name"]: each["seconds"] for each in found["parts"]}
    assert sum(parts.values()) == pytest.approx(found["step_seconds"]["mean"], rel=0.02)
    assert found["network"] == {"name": "small"}
    assert all(worker.clocks.__getattribute__(name).watch is None for name in ("batch", "update"))


def test_all_workers_are_in_the_profile_of_rank_0(
    make_worker, easgd, initial, in_threads, tmp_path
):
    def run(transport):
        folder = tmp_path / str(transport.rank)
        folder.mkdir()
        with make_worker(
            easgd(), transport=transport, steps=8, observers=[profile(folder, 4)]
        ) as worker:
            worker.run()
        return (folder / "profile.json").exists()

    assert in_threads(initial.size, 2, run) == [True, False]
    found = json.loads((tmp_path / "0/profile.json").read_text())
    assert [each["rank"] for each in found["ranks"]] == [0, 1]
    assert sum(each["last_share"] for each in found["ranks"]) == 1
    assert found["efficiency"]["parallel"] <= 1
