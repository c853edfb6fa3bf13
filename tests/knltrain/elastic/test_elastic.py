"""Workers of real launches that train models of PyTorch in loops of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from knltrain.config.methods import METHODS
from knltrain.errors import CheckpointError, ElasticError

from ..marks import by_cost
from ..ranks import told_as_json
from .launches import PROGRAM, alone, launched, outputs_of

ROOT = Path(__file__).parents[3]
OF_A_PLAN = {"caffegpi", "caffe_mpi", "parameter_server"}
"""Methods that take the optimizer's step themselves."""

LEARNT = 0.4
"""A share of the pictures that is told; a quarter is by chance, and a center may lag behind."""

TRAINED = sorted(METHODS.keys() - OF_A_PLAN - {"asgd", "mvasgd"})


OF_EACH_STRATEGY = (
    *("sync_sgd", "sync_easgd1", "seasgd", "downpour", "original_easgd_star", "layerwise_sgd"),
    *("diloco", "streaming_diloco", "hierarchical_sgd", "shmcaffe_h"),
)


@pytest.mark.parametrize("method", by_cost(TRAINED, *OF_EACH_STRATEGY, quick="sync_easgd3"))
def test_workers_come_to_one_center_that_has_learned(method: str) -> None:
    (_, first), (_, second) = launched("train", method)
    assert first == second or method == "none"
    assert first[1] > LEARNT


@pytest.mark.slow
def test_overlapped_exchanges_give_the_same_bits() -> None:
    plain, overlapped = (launched("train", each)[0] for each in ("sync_easgd", "sync_easgd3"))
    assert plain == overlapped


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", by_cost(["sync_easgd3", "sync_sgd", "seasgd", "diloco"], quick="sync_easgd3")
)
def test_workers_go_on_from_a_state(method: str) -> None:
    for status, (steps, is_same) in launched("goes_on", method):
        assert (status, steps) == (0, 10)
        assert is_same or METHODS[method].comes_alone


@pytest.mark.slow
def test_a_transformer_in_bfloat16_learns() -> None:
    (_, first), (_, second) = launched("in_bfloat16", "sync_easgd")
    assert first == second
    assert first[1] > 0.6


ON_DEVICES = {
    "sync_sgd": {},
    "sync_easgd": {},
    "sync_easgd3": {},
    "layerwise_sgd": {},
    "diloco": {},
    "streaming_diloco": {},
    "original_easgd": {},
    "shmcaffe_h": {"group_size": 2, "communication_period": 3},
    "hierarchical_sgd": {},
    "sync_sgd between devices": {"within_nodes": "device"},
    "sync_easgd2 between devices": {"within_nodes": "device"},
    "shmcaffe_h between devices": {
        "group_size": 2,
        "communication_period": 3,
        "within_nodes": "device",
    },
}


@pytest.mark.parametrize("name", by_cost(list(ON_DEVICES), "sync_easgd3", quick="sync_easgd3"))
def test_vectors_on_devices_give_the_same_bits(name: str) -> None:
    method, options = name.split()[0], ON_DEVICES[name]
    alone = {key: value for key, value in options.items() if key != "within_nodes"}
    here = launched("train", method, **alone)
    assert launched("train", method, apart=True, **options) == here
    assert here[0][1][1] > LEARNT


@pytest.mark.slow
def test_workers_go_on_from_a_state_on_devices() -> None:
    found = launched("goes_on", "sync_easgd2", apart=True, within_nodes="device")
    assert found == [(0, [10, True])] * 2


RUN = """
workers = 2
network.name = "lenet"
data.name = "digits"
train = { steps = 6, batch = 32 }
optimizer = { momentum = 0.0, weight_decay = 0.0 }
learning_rate.base = 0.05
evaluation.every_epochs = 0
checkpoint.every_epochs = 0.1
placement.pin = false
backend = { name = "torch", implementation = "reference", threads = 1 }
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("sync_easgd3", {}),
        pytest.param("sync_sgd", {}, marks=pytest.mark.long),
        ("shmcaffe_h", {"group_size": 2, "communication_period": 3}),
    ],
    ids=["sync_easgd3", "sync_sgd", "a group"],
)
def test_the_center_has_the_bits_of_a_run_of_knltrain(
    method: str,
    options: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start_knltrain: Callable[..., Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN)
    chosen = {"method": method, **options}
    words = [word for key, value in chosen.items() for word in ("--set", f"exchange.{key}={value}")]
    run = start_knltrain("train", "run.toml", *words, cwd=tmp_path)
    _, error = run.communicate(timeout=300)
    assert run.returncode == 0, error
    kept = load_file(tmp_path / "runs/run/checkpoint-6/center.safetensors")
    for status, found in launched("as_knltrain", method, **options):
        assert status == 0
        for name, values in kept.items():
            theirs = found[name.replace("weights", "weight").replace("biases", "bias")]
            np.testing.assert_array_equal(np.array(theirs, np.float32), values, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scene", "said"),
    [("one_fails", "RunAborted"), ("one_dies", "PeerLost")],
)
def test_the_end_of_one_worker_ends_the_others(scene: str, said: str) -> None:
    (_, (kind, _)), (status, found) = launched(scene, "sync_easgd")
    assert kind in ("PeerLost", said)
    assert status == -9 if scene == "one_dies" else found == ["ValueError", "this worker's own"]


@pytest.mark.slow
def test_the_program_of_the_docs_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/elastic.md").read_text(encoding="utf-8")
    (program,) = re.findall("```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(program, encoding="utf-8")
    assert outputs_of(["train.py"]) == [(0, ""), (0, "")]
    assert torch.load("center.pt", weights_only=True)["1.bias"].shape == (10,)


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_ranks_that_affinity_has_placed_are_the_workers() -> None:
    scene = [sys.executable, PROGRAM, "train", "sync_easgd", "{}"]
    command = [sys.executable, "-m", "affinity", "run", "--workers", "2", "--", *scene]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    (first,), (second,) = told_as_json(found.stdout)
    assert first == second
    assert first[1] > LEARNT


@pytest.mark.parametrize("method", ["sync_easgd", "sync_sgd", "easgd", "asgd", "none"])
def test_a_worker_may_be_alone(method: str) -> None:
    with alone(method) as run:
        before = run.model.weight.detach().clone()  # type: ignore[union-attr, operator]
        run.model(torch.ones(1, 3)).sum().backward()
        run.step()
        weight = run.model.weight
        torch.testing.assert_close(weight, before - 0.1)
        with run.center() as model:
            assert model is run.model
    torch.testing.assert_close(run.model.weight, before - 0.1)


@pytest.mark.slow
def test_compiled_kernels_come_to_a_center_that_has_learned() -> None:
    (_, first), (_, second) = launched("train", "sync_easgd3", implementation="numba")
    assert first == second
    assert first[1] > LEARNT


@pytest.mark.parametrize("call", ["center", "state"])
def test_what_belongs_between_steps_is_refused_within_one(call: str) -> None:
    with alone() as run:
        run.model(torch.ones(1, 3)).sum().backward()
        with pytest.raises(ElasticError, match=f"{call}\\(\\) in the middle of a step"):
            run.state() if call == "state" else run.center().__enter__()
        run.step()
        with torch.no_grad():
            run.model(torch.ones(1, 3))
        run.state()
    run.close()  # once more: nothing happens


@pytest.mark.parametrize("drop", ["center", "exchange.kept0"])
def test_a_state_of_another_model_or_method_is_refused(drop: str) -> None:
    with alone("slowmo") as run:
        state = run.state()
        del state[drop]
        with pytest.raises(CheckpointError, match=drop):
            run.load_state(state)
