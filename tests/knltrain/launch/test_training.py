"""Whole runs by the command: side by side, continued, repeated, and to the bit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from affinity import PlacementError, parse_cpulist
from knltrain.assembly.initial_parameters import InitialParameters
from knltrain.config import load_config
from knltrain.config.methods import METHODS
from knltrain.data.digits import load_digits
from knltrain.errors import ConfigError, RunFolderError, SegmentError
from knltrain.launch import training
from knltrain.launch.model import load_model
from knltrain.launch.run_folder import read_config
from knltrain.launch.signals import run_begins
from knltrain.metrics import read_metrics
from knltrain.network.description import network_to_json
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named
from vectorized_ops.numba.emit.bfloat16 import IS_NATIVE

from ..marks import by_cost

pytestmark = pytest.mark.usefixtures("two_cores")

Start = Callable[..., subprocess.Popen[str]]


def _finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return out


def _assert_same_end(one: Path, other: Path, workers: int = 2) -> None:
    """The same model to the last bit, and the same state of all workers."""
    for name in ("center", *(f"worker-{rank}" for rank in range(workers))):
        ours, theirs = (
            load_file(run / f"checkpoint-12/{name}.safetensors") for run in (one, other)
        )
        assert ours.keys() == theirs.keys()
        different = [key for key in ours if ours[key].tobytes() != theirs[key].tobytes()]
        assert not different, f"{name} differs in {different}"


def _cut_off_after_step_6(run: Path) -> Path:
    """A copy of a finished run as it was when only its first checkpoint was written."""
    copy = run.with_name(run.name + "-cut")
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "checkpoint-12")
    (copy / "result.json").unlink()
    return copy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_toml: str) -> Path:
    folder = tmp_path_factory.mktemp("training")
    (folder / "run.toml").write_text(run_toml)
    return folder


@pytest.fixture(scope="module")
def two_at_once(folder: Path, start_knltrain: Start) -> tuple[Path, Path]:
    """Two runs of the same configuration that were carried out at the same time."""
    processes = [start_knltrain("train", "run.toml", cwd=folder, pictures=True) for _ in range(2)]
    for process in processes:
        assert "test accuracy of the center" in _finish(process)
    return folder / "runs/run", folder / "runs/run-2"


@pytest.mark.slow
def test_two_runs_at_once_do_not_meet(two_at_once: tuple[Path, Path]) -> None:
    one, other = two_at_once
    _assert_same_end(one, other)
    results = [json.loads((run / "result.json").read_text()) for run in two_at_once]
    assert results[0]["test_accuracy"] == results[1]["test_accuracy"]
    assert [result["steps"] for result in results] == [12, 12]


def test_the_run_folder_says_what_was_asked_and_what_was_got(
    two_at_once: tuple[Path, Path],
) -> None:
    run = two_at_once[0]
    workers = json.loads((run / "placement.json").read_text())["workers"]
    assert [worker["rank"] for worker in workers] == [0, 1]
    for worker in workers:
        got, asked = worker["got"], set(parse_cpulist(worker["asked"]["cpus"]))
        # Each of several threads may keep to a core of its own, the place is that of all together.
        threads = [set(parse_cpulist(thread["cpus"])) for thread in got["threads"]]
        assert set().union(*threads) == set(parse_cpulist(got["cpus"])) == asked
    first, second = (set(parse_cpulist(worker["got"]["cpus"])) for worker in workers)
    assert not first & second
    assert (run / "curves.png").stat().st_size > 0
    for rank in range(2):
        log = (run / f"worker-{rank}.log").read_text().splitlines()
        assert log
        assert all(line.startswith("kernels: ") for line in log)


@pytest.mark.slow
def test_a_run_repeats_from_its_folder(
    folder: Path, two_at_once: tuple[Path, Path], start_knltrain: Start
) -> None:
    config = str(two_at_once[0] / "config.toml")
    _finish(start_knltrain("train", config, "--name", "again", cwd=folder))
    _assert_same_end(two_at_once[0], folder / "runs/again")


STREAMING = {"communication_period": 4, "fragments": 2, "delay_steps": 1}
REPEATABLE: dict[str, dict[str, int]] = {
    "sync_easgd": {},
    "sync_sgd": {},
    "sync_easgd3": {},
    "layerwise_sgd": {},
    "streaming_diloco": STREAMING,  # step 6 is after a fragment's slot; 5 and 7 are inside one
    "original_easgd": {},
    "sync_easgd1": {},
    "hierarchical_sgd": {"communication_period": 4, "group_period": 2},
    "slowmo": {"communication_period": 4},
}
SLOW = ("sync_sgd", "layerwise_sgd", "streaming_diloco", "original_easgd")


@pytest.mark.parametrize("method", by_cost(REPEATABLE, *SLOW, quick="sync_easgd"))
def test_a_resumed_run_ends_bit_equal(
    method: str, folder: Path, two_at_once: tuple[Path, Path], start_knltrain: Start
) -> None:
    run = two_at_once[0]
    if method != "sync_easgd":
        run = folder / "runs" / method
        settings = ["--set", f"exchange.method={method}", "--name", method]
        for key, value in REPEATABLE[method].items():
            settings += ["--set", f"exchange.{key}={value}"]
        _finish(start_knltrain("train", "run.toml", *settings, cwd=folder))
    resumed = _cut_off_after_step_6(run)
    _finish(start_knltrain("train", "--resume", str(resumed), cwd=folder))
    _assert_same_end(run, resumed)
    lines = (resumed / "metrics-0.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == sorted(steps)


def test_signal_that_comes_while_a_run_is_closed_leaves_it_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the end is that no worker can be started."""

    @contextmanager
    def closing(*_: object) -> Iterator[None]:
        try:
            yield
        finally:
            signal.raise_signal(signal.SIGTERM)

    def refuse(*_: object) -> None:
        raise PlacementError("no worker today")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(training, "job_peers_of", closing)
    monkeypatch.setattr(training, "start_worker", refuse)
    with run_begins(), pytest.raises(PlacementError, match="no worker today"):
        training.train(load_config(Path("run.toml"), ['name="closed"']))


OF_ONE_WORKER = {"asgd", "mvasgd"}
ALONE = [
    name
    for name, facts in METHODS.items()
    if facts.schedule in ("first_come", "lock_free") and name not in OF_ONE_WORKER
]
SLOW_ALONE = ("easgd", "hogwild_sgd", "downpour", "mvadownpour", "shmcaffe_h")


@pytest.mark.slow
@pytest.mark.parametrize("method", by_cost(ALONE, *SLOW_ALONE, quick="seasgd"))
def test_workers_that_come_alone_train_and_can_go_on(
    method: str, folder: Path, start_knltrain: Start
) -> None:
    run, settings = folder / "runs" / method, ["--set", f"exchange.method={method}"]
    if method == "mdownpour":  # the paper's 0.99 is for smaller learning rates, and 0.9 diverges
        settings += ["--set", "exchange.center_momentum=0.5"]
    if method == "async_msgd":  # the center takes the steps of both, with momentum
        settings += ["--set", "learning_rate.base=0.005"]
    if method == "mvadownpour":  # the paper's 0.001 is for more than 24 updates
        settings += ["--set", "exchange.averaging_rate=0.2"]
    _finish(start_knltrain("train", "run.toml", *settings, "--name", method, cwd=folder))
    result = json.loads((run / "result.json").read_text())
    assert result["steps"] == 12
    # Twelve steps are few for methods without momentum, but better than one guess in ten.
    assert result["test_accuracy"] > 0.15
    resumed = _cut_off_after_step_6(run)
    _finish(start_knltrain("train", "--resume", str(resumed), cwd=folder))
    assert json.loads((resumed / "result.json").read_text())["steps"] == 12


@pytest.mark.parametrize("method", by_cost(sorted(OF_ONE_WORKER), "mvasgd"))
def test_one_worker_whose_model_is_an_average_trains_and_resumes_bit_equal(
    method: str, folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs" / method
    settings = ["--workers", "1", "--set", f"exchange.method={method}", "--name", method]
    if method == "mvasgd":  # as with mvadownpour
        settings += ["--set", "exchange.averaging_rate=0.2"]
    _finish(start_knltrain("train", "run.toml", *settings, cwd=folder))
    result = json.loads((run / "result.json").read_text())
    assert (result["steps"], result["worker_steps"], result["workers"]) == (12, [12], 1)
    assert result["test_accuracy"] > 0.15
    model, kept = (
        load_file(run / f"checkpoint-12/{name}.safetensors") for name in ("center", "worker-0")
    )
    assert np.array_equal(kept["local"], kept["exchange.center"])
    average = ParameterVector(network_named("lenet"), kept["exchange.kept0"]).views
    last = ParameterVector(network_named("lenet"), kept["local"]).views
    assert model.keys() == average.keys()
    for name, values in model.items():
        assert np.array_equal(values, average[name])
        assert not np.array_equal(values, last[name])
    found = json.loads(_finish(start_knltrain("evaluate", str(run), "--json", cwd=folder)))
    assert found["accuracy"] == result["test_accuracy"]
    resumed = _cut_off_after_step_6(run)
    _finish(start_knltrain("train", "--resume", str(resumed), cwd=folder))
    _assert_same_end(run, resumed, workers=1)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_a_run_may_be_resumed_in_another_precision(
    before: str, after: str, folder: Path, start_knltrain: Start
) -> None:
    def words(precision: str) -> list[str]:
        emulates = precision == "bfloat16" and not IS_NATIVE
        told = {"precision": precision, "emulate_bfloat16": str(emulates).lower()}
        return [f"--set=backend.{key}={value}" for key, value in told.items()]

    _finish(start_knltrain("train", "run.toml", *words(before), "--name", before, cwd=folder))
    run = folder / "runs" / before
    resumed = _cut_off_after_step_6(run)
    out = _finish(start_knltrain("train", "--resume", str(resumed), *words(after), cwd=folder))
    note = f"note: backend.precision: the run began with '{before}' and goes on with '{after}'"
    assert note in out
    assert f'precision = "{after}"' in (resumed / "config.toml").read_text()
    expected, found = (
        np.concatenate([values.ravel() for values in load_file(center).values()])
        for center in (each / "checkpoint-12/center.safetensors" for each in (run, resumed))
    )
    distance = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert 0 < distance < 0.005  # the last six steps moved it by 0.03


def _first_loss(run: Path) -> float:
    return next(each["loss"] for each in read_metrics(run / "metrics-0.jsonl") if "loss" in each)


@pytest.mark.slow
def test_a_run_of_a_described_network_is_evaluated_by_its_folder_alone(
    folder: Path, start_knltrain: Start
) -> None:
    own = folder / "own.json"
    own.write_text(network_to_json(replace(network_named("lenet"), name="own")))
    words = ("--set", f"network.name={own}", "--name", "own")
    _finish(start_knltrain("train", "run.toml", *words, cwd=folder))
    own.unlink()
    assert json.loads((folder / "runs/own/network.json").read_text())["name"] == "own"
    assert json.loads((folder / "runs/own/result.json").read_text())["network"] == "own"
    assert "accuracy" in _finish(start_knltrain("evaluate", "runs/own", cwd=folder))
    more = ("--set", "train.epochs=3")
    _finish(start_knltrain("train", "--resume", "runs/own", *more, cwd=folder))


@pytest.mark.slow
def test_parameters_drawn_by_the_parent_are_those_that_workers_draw(
    two_at_once: tuple[Path, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of LeNet are few, and drawn by its workers. With another seed a run ends elsewhere."""
    monkeypatch.setattr(training, "LEAST_DRAWN", 0)
    monkeypatch.chdir(folder)
    run = training.train(load_config(folder / "run.toml", ["name=drawn-before"]))
    _assert_same_end(two_at_once[0], run)
    draw = ParameterVector.initialise
    monkeypatch.setattr(
        ParameterVector, "initialise", lambda self, seed, stopped: draw(self, seed + 1, stopped)
    )
    other = training.train(load_config(folder / "run.toml", ["name=drawn-otherwise"]))
    with pytest.raises(AssertionError, match="center differs"):
        _assert_same_end(run, other)


@pytest.mark.slow
def test_without_memory_for_all_workers_each_draws_its_parameters(
    two_at_once: tuple[Path, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SegmentError("no memory")

    monkeypatch.setattr(InitialParameters, "__init__", refuse)
    monkeypatch.setattr(training, "LEAST_DRAWN", 0)
    monkeypatch.chdir(folder)
    run = training.train(load_config(folder / "run.toml", ["name=drawn-by-each"]))
    _assert_same_end(two_at_once[0], run)


@pytest.mark.slow
def test_a_run_starts_from_the_model_of_another(
    two_at_once: tuple[Path, Path], folder: Path, start_knltrain: Start
) -> None:
    weights = two_at_once[0] / "checkpoint-12/center.safetensors"
    words = ("--set", f"network.weights={weights}", "--name", "finer")
    _finish(start_knltrain("train", "run.toml", *words, cwd=folder))
    assert _first_loss(folder / "runs/finer") < 0.8 * _first_loss(two_at_once[0])
    process = start_knltrain(
        *("train", "run.toml", "--set", "network.weights=none.pt", "--name", "none"), cwd=folder
    )
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err == "error: network.weights = 'none.pt': there is no such file\n"
    assert not (folder / "runs/none").exists()


@pytest.mark.slow
def test_a_resumed_run_may_be_given_more_time_and_fewer_computers(
    folder: Path, two_at_once: tuple[Path, Path], start_knltrain: Start
) -> None:
    """As when it could not keep its checkpoint within what it had been given."""
    given = {
        "checkpoint.every_minutes": "3.0",
        "exchange.timeout_seconds": "99.0",
        "preemption.grace_seconds": "77.0",
    }
    run = _cut_off_after_step_6(two_at_once[1])
    words = [f"--set={key}={value}" for key, value in given.items()]
    config = (run / "config.toml").read_text()
    of_two = config.replace("workers = 2", "workers = 1").replace("nodes = 1", "nodes = 2")
    assert of_two != config
    (run / "config.toml").write_text(of_two)  # as if one of two computers were lost
    words += ["--set=nodes=1", "--set=workers=2"]
    _finish(start_knltrain("train", "--resume", str(run), *words, cwd=folder))
    _assert_same_end(two_at_once[0], run)
    config = (run / "config.toml").read_text()
    assert all(f"{key.partition('.')[2]} = {value}" in config for key, value in given.items())


def _refused(process: subprocess.Popen[str]) -> str:
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.count("\n") == 1
    return err


@pytest.mark.slow
def test_a_resumption_that_is_refused_leaves_the_run_as_it_was(
    folder: Path, two_at_once: tuple[Path, Path], start_knltrain: Start
) -> None:
    run = str(two_at_once[0])
    before = (two_at_once[0] / "config.toml").read_bytes()
    shorter = ("--resume", run, "--set", "train.steps=3")
    err = _refused(start_knltrain("train", *shorter, cwd=folder))
    assert "already at step 12" in err
    assert (two_at_once[0] / "config.toml").read_bytes() == before
    _finish(start_knltrain("train", "--resume", run, cwd=folder))


def test_a_resumed_run_that_lacks_cores_is_told_how_to_go_on(
    two_at_once: tuple[Path, Path],
) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with pytest.raises(PlacementError, match=r"2 workers, .*--set placement.pin=false"):
            training.resume(two_at_once[0])
        with pytest.raises(ConfigError, match="a resumed run keeps its configuration"):
            training.resume(two_at_once[0], ["placement.memory=none"])
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.slow
def test_a_run_goes_on_from_before_a_damaged_checkpoint_which_is_kept(
    folder: Path, two_at_once: tuple[Path, Path], start_knltrain: Start
) -> None:
    run = two_at_once[0].with_name("run-damaged")
    shutil.copytree(two_at_once[0], run)
    model = run / "checkpoint-12/center.safetensors"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(content)
    unpinned = ("--set", "placement.pin=false")
    out = _finish(start_knltrain("train", "--resume", str(run), *unpinned, cwd=folder))
    assert "now called checkpoint-12.damaged; the newest whole one is checkpoint-6" in out
    assert (run / "checkpoint-12.damaged").is_dir()
    _assert_same_end(two_at_once[0], run)


def test_what_was_set_aside_is_told_though_the_run_does_not_begin(
    two_at_once: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    run = two_at_once[0].with_name("run-damaged-and-full")
    shutil.copytree(two_at_once[0], run)
    (run / "checkpoint-12/center.safetensors").write_bytes(b"")
    (run / "config.toml.partial").mkdir()  # in the way of the new one
    with pytest.raises(RunFolderError, match=r"config\.toml"):
        training.resume(run, ["placement.pin=false"])
    assert (run / "checkpoint-12.damaged").is_dir()
    assert "now called checkpoint-12.damaged; the newest whole one" in capfd.readouterr().out


def test_evaluate_finds_what_the_run_found(
    folder: Path, two_at_once: tuple[Path, Path], start_knltrain: Start
) -> None:
    run = two_at_once[0]
    found = json.loads(_finish(start_knltrain("evaluate", str(run), "--json", cwd=folder)))
    result = json.loads((run / "result.json").read_text())
    assert found["accuracy"] == result["test_accuracy"]
    assert found["loss"] == pytest.approx(result["test_loss"], rel=1e-5)
    assert (found["step"], found["images"]) == (12, result["test_images"])
    assert found["class_names"] == list("0123456789")


def test_the_model_of_a_run_needs_its_folder_alone(two_at_once: tuple[Path, Path]) -> None:
    run = two_at_once[0]
    digits = load_digits(None, 100).test
    with load_model(run) as model:
        told = model.predict([digits.picture(row) for row in range(100)])
    right = [int(found.class_name) for found in told] == digits.labels
    result = json.loads((run / "result.json").read_text())
    assert np.mean(right) == pytest.approx(result["test_accuracy"], abs=0.15)
    config = read_config(run).data
    assert config.mean == tuple(model.preprocessing.mean)


@pytest.mark.slow
def test_a_run_whose_classes_have_another_order_does_not_go_on(
    tmp_path: Path, two_at_once: tuple[Path, Path], start_knltrain: Start
) -> None:
    shutil.copytree(two_at_once[0], tmp_path / "run")
    path = tmp_path / "run/preprocessing.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "class_names": fields["class_names"][::-1]}))
    more = ("--set=train.epochs=3", "--accept-other-data")
    with start_knltrain("train", "--resume", "run", *more, cwd=tmp_path) as one:
        _, err = one.communicate(timeout=120)
    assert one.returncode == 2
    assert "has learned classes in the order '9', '8'" in err


def write_half(root: Path, half: str, images: int) -> None:
    """Idx files of images of noise."""
    pixels = np.random.default_rng(images).integers(0, 256, (images, 28, 28))
    for name, array in (("images-idx3", pixels), ("labels-idx1", np.arange(images) % 10)):
        header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
        path = root / f"{half}-{name}-ubyte"
        path.write_bytes(header + array.astype(np.uint8).tobytes())


@pytest.mark.slow
def test_run_tells_what_it_learns_from_and_goes_on_with_nothing_else(
    tmp_path: Path, run_toml: str, start_knltrain: Start
) -> None:
    """A run on the test half, which then moves, and is joined by the training half."""
    toml = run_toml.replace('"digits"\ntrain_images = 96', '"mnist"\nroot = "mnist"')
    (tmp_path / "run.toml").write_text(toml)
    (tmp_path / "mnist").mkdir()
    write_half(tmp_path / "mnist", "t10k", 40)
    out = _finish(start_knltrain("train", "run.toml", cwd=tmp_path))
    run = tmp_path / "runs/run"
    assert "training lenet on mnist-t10k by" in out
    assert "note: MNIST's t10k half" in out
    assert json.loads((run / "result.json").read_text())["data"] == "mnist-t10k"
    moved = (tmp_path / "mnist").rename(tmp_path / "moved")
    there = (f"--set=data.root={moved}", "--set=train.epochs=3")
    _finish(start_knltrain("train", "--resume", str(run), *there, cwd=tmp_path))
    write_half(moved, "train", 60)
    with start_knltrain("train", "--resume", str(run), "--set=train.epochs=4", cwd=tmp_path) as one:
        _, err = one.communicate(timeout=120)
    assert one.returncode == 2
    assert "has learned from 'mnist-t10k' with 36 images" in err
    assert "but now there is 'mnist' with 60 images" in err
    for command in (("train", "--resume"), ("evaluate",)):
        _finish(start_knltrain(*command, str(run), "--set=data.name=mnist-t10k", cwd=tmp_path))
