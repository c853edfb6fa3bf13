"""What a worker leaves in the run folder to be read."""

from __future__ import annotations

import json
from typing import final

from knltrain.evaluation import ClassCounts, Evaluation
from knltrain.metrics import MetricsLog, read_metrics
from knltrain.worker.observer import Observer
from knltrain.worker.run_files import MetricsObserver, PlanObserver, ResultObserver
from knltrain.worker.tracing import TraceObserver


def test_metrics_hold_the_steps_and_the_evaluations(make_worker, easgd, tmp_path):
    log = MetricsObserver(MetricsLog(tmp_path, 1, steps_per_epoch=4))
    with make_worker(easgd(), steps=2, observers=[log]) as worker:
        worker.run()
        worker.evaluated(Evaluation(0.5, 1.0, 10))
    records = read_metrics(tmp_path / "metrics-1.jsonl")
    assert [(record["kind"], record["step"]) for record in records] == [
        ("train", 1),
        ("train", 2),
        ("test", 2),
    ]
    assert records[0]["learning_rate"] == 0.5
    assert (records[2]["accuracy"], records[2]["images"]) == (0.5, 10)


def test_rank_0_writes_what_its_backend_decided(
    in_threads, make_worker, tmp_path, initial, no_exchange, softmax_backend, monkeypatch
):
    monkeypatch.setattr(type(softmax_backend), "description", {"arena_bytes": 3})

    def train(transport):
        folder = tmp_path / str(transport.rank)
        folder.mkdir()
        make_worker(no_exchange(2), transport=transport, observers=[PlanObserver(folder)]).run()

    in_threads(initial.size, 2, train)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*")] == [
        "0/plan.json"
    ]
    assert json.loads((tmp_path / "0/plan.json").read_text()) == {"arena_bytes": 3}


def test_backend_that_decided_nothing_leaves_no_plan(make_worker, tmp_path, easgd):
    make_worker(easgd(), observers=[PlanObserver(tmp_path)]).run()
    assert not list(tmp_path.iterdir())


def test_rank_0_writes_the_result_with_its_facts(make_worker, tmp_path, easgd):
    worker = make_worker(easgd(), observers=[ResultObserver(tmp_path, {"seed": 4})])
    worker.run()
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["seed"] == 4
    assert result["steps"] == 5
    assert result["test_accuracy"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@final
class EvaluatesByClass(Observer):
    def __init__(self, confusion):
        self.counts = ClassCounts((3, 1), (2, 1), None, confusion, ("cat", "dog"))

    def started(self, worker):
        worker.evaluated(Evaluation(0.75, 1.0, 4, self.counts))


def test_result_has_the_accuracy_of_each_class_and_few_classes_their_confusion(
    make_worker, tmp_path, easgd
):
    for name, confusion in (("few", ((2, 1), (0, 1))), ("many", None)):
        (tmp_path / name).mkdir()
        observers = [EvaluatesByClass(confusion), ResultObserver(tmp_path / name, {})]
        make_worker(easgd(), observers=observers).run()
        result = json.loads((tmp_path / name / "result.json").read_text())
        assert result["test_class_accuracy"] == [2 / 3, 1.0]
        assert result["class_names"] == ["cat", "dog"]
        assert result["test_top5_accuracy"] is None
    assert (tmp_path / "few/confusion.csv").read_text() == ",cat,dog\ncat,2,1\ndog,0,1\n"
    assert not (tmp_path / "many/confusion.csv").exists()


def test_other_ranks_write_no_result(in_threads, make_worker, tmp_path, initial, no_exchange):
    def train(transport):
        folder = tmp_path / str(transport.rank)
        folder.mkdir()
        make_worker(
            no_exchange(2), transport=transport, observers=[ResultObserver(folder, {})]
        ).run()

    in_threads(initial.size, 2, train)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*")] == [
        "0/result.json"
    ]


@final
class Hears(Observer):
    """Takes down what a worker tells of as missing."""

    def __init__(self):
        self.lacking = {}

    def unwritten(self, worker, what, lacks):
        self.lacking[what] = lacks


def test_worker_whose_folder_is_gone_does_all_its_steps_and_tells(make_worker, tmp_path, easgd):
    gone, hears = tmp_path / "gone", Hears()
    log = MetricsLog(gone, 1, steps_per_epoch=4)
    observers = [
        hears,
        MetricsObserver(log),
        ResultObserver(gone, {}),
        TraceObserver(gone / "trace-0.json", 0, 2),
    ]
    with make_worker(easgd(), steps=3, observers=observers) as worker:
        assert worker.run().steps == 3
    assert set(hears.lacking) == {"metrics-1.jsonl", "result.json", "trace-0.json"}
    assert all("No such file" in lacks for lacks in hears.lacking.values())


def test_plan_that_was_not_written_at_the_start_is_written_in_the_end(
    make_worker, tmp_path, easgd, softmax_backend, monkeypatch
):
    monkeypatch.setattr(type(softmax_backend), "description", {"arena_bytes": 3})
    hears, folder = Hears(), tmp_path / "late"

    @final
    class MakesRoom(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            assert "No such file" in hears.lacking["plan.json"]
            folder.mkdir(exist_ok=True)

    make_worker(easgd(), steps=1, observers=[hears, MakesRoom(), PlanObserver(folder)]).run()
    assert hears.lacking == {"plan.json": ""}
    assert json.loads((folder / "plan.json").read_text()) == {"arena_bytes": 3}
