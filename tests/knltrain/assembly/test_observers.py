"""What a whole run leaves behind, and when."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest

from knltrain.assembly import observers
from knltrain.assembly.names import plain_method
from knltrain.bench.nodes.overlap import hidden_share
from knltrain.confusion import confusion_from_csv
from knltrain.metrics import read_metrics
from knltrain.network.zoo.networks import network_named
from knltrain.profile.window import WARM_UP_STEPS
from knltrain.report import draw_curves, summary
from knltrain.worker.profiling import _Window
from knltrain.worker.tracing import TRACED, TraceObserver


def test_whole_run_leaves_a_complete_run_folder(config, run, tmp_path):
    run(config(evaluation__every_epochs=1.0), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"result.json", "metrics-0.jsonl", "checkpoint-5", "confusion.csv"} < names
    assert len([name for name in names if name.startswith("events.out.tfevents")]) == 1
    assert len(names) == 5
    result = json.loads((tmp_path / "result.json").read_text())
    facts = {
        "network": "lenet",
        "data": "digits",
        "method": "sync_easgd",
        "backend": "torch",
        "workers": 1,
        "threads": 1,
        "batch": 16,
        "epochs": None,
        "seed": 1,
        "steps": 5,
        "test_images": 20,
    }
    assert facts.items() <= result.items()
    assert 0 <= result["test_accuracy"] <= result["test_top5_accuracy"] <= 1
    confusion = confusion_from_csv(tmp_path / "confusion.csv").counts
    right = [confusion[number][number] for number in range(10)]
    assert (sum(right), sum(map(sum, confusion))) == (20 * result["test_accuracy"], 20)
    assert [right[number] / max(sum(row), 1) for number, row in enumerate(confusion)] == [
        each or 0 for each in result["test_class_accuracy"]
    ]
    assert result["images_per_second"] == pytest.approx(5 * 16 / result["train_seconds"])
    records = read_metrics(tmp_path / "metrics-0.jsonl")
    assert [each["step"] for each in records if each["kind"] == "test"] == [2, 4, 5]
    assert {each["step"] for each in records if each["kind"] == "train"} >= {1, 5}
    draw_curves(tmp_path)
    assert f"{100 * result['test_accuracy']:.2f} % of 20 images" in summary(tmp_path)


def test_evaluations_and_checkpoints_may_be_counted_in_steps(config, run, tmp_path):
    chosen = config(
        evaluation__every_epochs=1.0,
        evaluation__every_steps=3,
        checkpoint__every_steps=4,
        checkpoint__keep=9,
    )
    run(chosen, tmp_path)
    records = read_metrics(tmp_path / "metrics-0.jsonl")
    assert [each["step"] for each in records if each["kind"] == "test"] == [3, 5]
    assert {path.name for path in tmp_path.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-5"}


def test_run_of_the_cpu_backend_leaves_its_plan(config, run, tmp_path):
    run(config(backend__name="cpu", backend__micro_batch=8), tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["implementation"], plan["batch"], plan["threads"]) == ("reference", 16, 1)
    assert plan["micro_batch"] == {"images": 8, "seconds": []}
    assert plan["arena_bytes"] > 0


def test_evaluation_takes_as_many_images_at_once_as_the_backend_can(
    config, make_worker, tmp_path, monkeypatch
):
    sizes = []
    with make_worker(config(), tmp_path) as worker:
        evaluate = worker.backend.evaluate

        def recording(images, parameters, logits=None):
            sizes.append(len(images.labels))
            return evaluate(images, parameters, logits)

        monkeypatch.setattr(worker.backend, "evaluate", recording)
        worker.run()
    assert sizes == 3 * [16, 4]


@pytest.mark.parametrize(
    ("method", "vectors"),
    [
        ("sync_easgd", 1),
        ("seasgd", 1),
        ("shmcaffe_h", 1),
        ("downpour", 1.5),
        ("original_easgd", 1),
        ("async_msgd", 2),
        ("adownpour", 3),
        *((each, None) for each in ("caffegpi", "caffe_mpi", "parameter_server", "none")),
    ],
)
def test_bytes_that_a_node_sends_are_told_where_there_is_such_a_number(config, method, vectors):
    """Of two nodes, half a vector each way; who follows the center reads it once more."""
    found = observers._between_nodes(config(nodes=2, workers=2, exchange__method=method))
    sent = found.get("exchange_bytes")
    assert sent == (None if vectors is None else pytest.approx(vectors * 4 * 431_080, 0.001))
    assert (found["nodes"], found["wire_format"]) == (2, "float32")


@pytest.mark.parametrize(
    ("method", "written", "vectors"),
    [
        ("seasgd", "bfloat16", 0.5),
        ("seasgd", "int8", (2 + 1.016) / 8),
        ("shmcaffe_h", "int8", (2 + 1.016) / 8),
        ("original_easgd", "int8", (2 + 1.016) / 8),
        ("downpour", "int8", (4 + 1.016) / 8),
        ("seasgd", "top_k", (2 + 0.08) / 8),
    ],
)
def test_bytes_of_visits_are_those_of_the_wire_format(config, method, written, vectors):
    """Of two nodes, half of the center lies at the other one. It is read as bfloat16."""
    chosen = {"exchange__method": method, "exchange__wire_format": written}
    found = observers._between_nodes(config(nodes=2, workers=2, **chosen))
    assert found["exchange_bytes"] == pytest.approx(vectors * 4 * 431_080, 0.002)
    assert found["wire_format"] == written


def test_bytes_differ_between_nodes_where_some_have_no_share_of_the_center(config):
    chosen = {"exchange__method": "seasgd", "exchange__servers": [0]}
    assert "exchange_bytes" not in observers._between_nodes(config(nodes=2, workers=2, **chosen))


_GROUPS = {"exchange__group_size": 2}
_PERIODS = {"exchange__group_period": 2, "exchange__communication_period": 4}


@pytest.mark.parametrize(
    ("method", "vectors", "chosen"),
    [
        ("sync_easgd", 1.5, {}),
        ("sync_easgd1", 1.5, {}),
        ("caffegpi", 1.5, {}),
        ("caffe_mpi", 1.5, {}),
        ("parameter_server", 2, {}),
        ("seasgd", 2, {"exchange__communication_period": 1}),
        ("easgd", 0.2, {"exchange__communication_period": 10}),
        ("async_msgd", 4, {}),
        ("local_sgd", 0.5, {"exchange__communication_period": 3}),
        ("post_local_sgd", 1.5, {"exchange__communication_period": 3}),
        ("shmcaffe_h", 1 + 0.5 + 2 / 2, _GROUPS),
        ("hierarchical_sgd", 1 / 2 + (0.5 + 1 / 2) / 4, {**_GROUPS, **_PERIODS}),
    ],
)
def test_bytes_over_the_segment_are_those_of_a_step(config, method, vectors, chosen):
    """Of four workers: a fourth of three others' vectors each way, or the center each way."""
    chosen = config(workers=4, exchange__method=method, **chosen)
    found = observers._bytes_of_a_step(chosen, plain_method(chosen, 4), 1_000, 3)
    assert found == (0, pytest.approx(4_000 * vectors))


@pytest.mark.parametrize(
    ("method", "vectors", "chosen"),
    [
        ("sync_sgd", 4 / 3, {}),
        ("layerwise_sgd", 4 / 3, {}),
        ("local_sgd", 4 / 3 / 5, {"exchange__communication_period": 5}),
        ("downpour", 2, {"exchange__communication_period": 1}),
        ("seasgd", None, {"exchange__servers": [0]}),
        *((each, None, {}) for each in ("caffegpi", "caffe_mpi", "parameter_server")),
    ],
)
def test_bytes_over_the_wire_are_those_of_a_step_where_nodes_do_not_differ(
    config, method, vectors, chosen
):
    """Of three nodes, by the strategy's own formula."""
    chosen = config(nodes=3, workers=1, train__batch=15, exchange__method=method, **chosen)
    wire, segment = observers._bytes_of_a_step(chosen, plain_method(chosen, 3), 3_000, 3)
    assert wire == (None if vectors is None else pytest.approx(12_000 * vectors))
    assert segment is None


def test_nothing_is_said_of_nodes_where_there_is_one(config):
    assert observers._between_nodes(config(workers=2)) == {}


def test_a_profile_tells_what_else_may_differ_between_two(config, run, tmp_path):
    chosen = config(workers=1, train__steps=8, train__profile_steps=2, backend__name="cpu")
    run(chosen, tmp_path)
    found = json.loads((tmp_path / "profile.json").read_text())
    assert found["versions"] == {name: version(name) for name in ("torch", "numba")}
    assert (found["precision"], found["engine"]) == ("float32", "eager")
    assert found["layout"] is None  # the reference has none of numba's
    assert [each["layer"] for each in found["updates"]] == ["conv1", "conv2", "ip1", "ip2"]
    assert sum(each["seconds"] for each in found["updates"]) == pytest.approx(
        next(each["seconds"] for each in found["parts"] if each["name"] == "update")
    )


@pytest.mark.parametrize(
    ("chosen", "is_native", "expected"),
    [
        ({"precision": "bfloat16"}, True, ("bfloat16", True)),
        ({"precision": "bfloat16", "emulate_bfloat16": True}, False, ("bfloat16", False)),
        ({"precision": "auto"}, True, ("bfloat16", True)),
        ({"precision": "auto"}, False, ("float32", False)),
        ({"precision": "auto", "layout": "channels_last"}, True, ("float32", False)),
        ({}, True, ("float32", False)),
    ],
)
def test_products_are_measured_in_the_precision_of_the_run(
    config, tmp_path, monkeypatch, chosen, is_native, expected
):
    monkeypatch.setattr("vectorized_ops.numba.emit.bfloat16.IS_NATIVE", is_native)
    compiler = "vectorized_ops.numba.compiling.compiler"
    monkeypatch.setattr(f"{compiler}.target_sums_pairs_faster", lambda: True)
    backend = {f"backend__{name}": value for name, value in chosen.items()}
    backend.update(backend__name="cpu", backend__implementation="numba")
    chosen = config(workers=1, train__profile_steps=2, **backend)
    (found,) = observers.profiles(chosen, tmp_path, network_named("lenet"), 16, 1)
    assert (found._run.facts["precision"], found._run.rounds_products) == expected


@pytest.mark.slow
@pytest.mark.parametrize("method", ["layerwise_sgd", "sync_sgd"])
def test_the_profile_hides_as_much_of_an_exchange_as_the_trace(
    config, make_worker, tmp_path, monkeypatch, method
):
    """A trace of the steps of the window tells what the profile does, from the same spans."""
    chosen = config(
        workers=1,
        exchange__method=method,
        exchange__packing="per_layer",
        backend__name="cpu",
        train__batch=2,
        train__profile_steps=4,
        train__steps=WARM_UP_STEPS + 5,
        evaluation__every_epochs=100.0,
    )
    path, marked = tmp_path / "trace.json", []
    tracer, opened, done = TraceObserver(path, 0, 4), _Window.open, _Window.step_done

    def open_both(window, worker, step):
        opened(window, worker, step)
        take = window._timeline.take
        monkeypatch.setattr(window._timeline, "take", lambda: marked.append(take()) or marked[-1])
        monkeypatch.setattr(tracer._timeline, "take", lambda: marked[-1])
        monkeypatch.setattr(worker.backend, "observe", lambda _: None)
        clocks = [getattr(worker.clocks, name) for name in TRACED]
        of_window = [clock.watch or (lambda *_: None) for clock in clocks]
        tracer.started(worker)
        for clock, *both in zip(clocks, of_window, [each.watch for each in clocks], strict=True):
            clock.watch = lambda *span, both=both: [each(*span) for each in both]

    def both_done(window, worker):
        done(window, worker)
        tracer.step_done(worker, 0, 0.0, 0.0)

    monkeypatch.setattr(_Window, "open", open_both)
    monkeypatch.setattr(_Window, "step_done", both_done)
    with make_worker(chosen, tmp_path) as worker:
        worker.run()
    found = json.loads((tmp_path / "profile.json").read_text())["communication"]
    share = hidden_share(path.read_text())
    assert share == pytest.approx(found["hidden_seconds"] / found["union_seconds"], rel=1e-5)
    assert ("gradient ready" in path.read_text()) is (method == "layerwise_sgd")
