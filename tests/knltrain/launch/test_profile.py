"""Profiles of real trainings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..mpi_ranks import library_or_skip

ROOT = Path(__file__).parents[3]


def profile(folder: Path, *words: str) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "knltrain", "profile", str(ROOT / "configs/lenet_digits.toml")),
        *("--set", f"runs_folder={folder}", "--name", "seen", "--json", *words),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "training " in done.stderr  # what training says is no part of the result
    found = dict(json.loads(done.stdout))
    assert found == json.loads((folder / "seen/profile.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "torch"])
def test_the_stages_of_all_workers_are_profiled(tmp_path: Path, backend: str) -> None:
    found = profile(tmp_path, "--steps", "6", "--set", f"backend.name={backend}")
    assert len(found["ranks"]) == found["workers"] == 2
    passed = {each["name"]: each["passed"] for each in found["checks"]}
    assert passed["operations against the network's"]
    assert passed["records dropped"]
    stages = {(each["name"], each["direction"]): each for each in found["stages"]}
    conv = stages["conv2", "forward"]
    assert len(conv["by_rank"]) == 2
    assert min(conv["by_rank"]) > 0
    assert (conv["algorithm"] == "winograd4") is (backend == "cpu")
    run_folder = tmp_path / "seen"
    assert all(
        (run_folder / name).exists() for name in ("profile.csv", "roofline.png", "layers.png")
    )
    assert not list(run_folder.glob("checkpoint-*"))


_BY_LAYER = {
    "layerwise_sgd": ["--set", "exchange.packing=per_layer"],
    "caffegpi": [],
}


@pytest.mark.slow
@pytest.mark.parametrize("method", list(_BY_LAYER))
def test_parts_of_a_gradient_that_are_exchanged_meanwhile_are_told(
    method: str, tmp_path: Path
) -> None:
    if method == "caffegpi":
        library_or_skip()
    told = ["--set", f"exchange.method={method}", *_BY_LAYER[method]]
    found = profile(tmp_path, "--steps", "6", *told)
    communication = found["communication"]
    assert 0 <= communication["hidden_share"] <= 1
    assert communication["union_seconds"] > 0
    parts = found["exchanges"]
    assert sorted(name for each in parts for name in each["layers"]) == _LENET
    assert {each["bound"] for each in parts} <= {"memory", "latency"}
    for each in parts:
        assert each["issued_seconds"] >= each["moving_seconds"] > 0
        assert each["exposed_seconds"] >= 0


_LENET = ["conv1", "conv2", "ip1", "ip2"]


@pytest.mark.slow
def test_batches_of_a_step_are_counted_together(tmp_path: Path) -> None:
    found = profile(tmp_path, "--steps", "4", "--workers", "1", "--set", "train.iter_size=3")
    passed = {each["name"]: each["passed"] for each in found["checks"]}
    assert passed["operations against the network's"]
    assert {each["calls"] for each in found["stages"] if each["direction"] == "forward"} == {3}


@pytest.mark.slow
def test_workers_that_come_alone_and_end_together_are_profiled(tmp_path: Path) -> None:
    found = profile(tmp_path, "--steps", "30", "--set", "exchange.method=seasgd")
    assert len(found["ranks"]) == 2
    assert all(each["last_share"] is None for each in found["ranks"])
    times = found["communication"]["shmcaffe"]
    assert times["visits_per_step"] == pytest.approx(1, abs=0.2)
    assert times["tugw"] > 0 < times["tulw"]
    assert times["titer_model"] <= 1.5 * times["titer_measured"]


@pytest.mark.slow
def test_a_hybrid_s_times_are_those_of_the_roots_of_its_groups(tmp_path: Path) -> None:
    hybrid = ("exchange.method=shmcaffe_h", "exchange.group_size=2", "placement.pin=false")
    words = [word for each in hybrid for word in ("--set", each)]
    found = profile(tmp_path, "--steps", "9", "--workers", "4", *words)
    times = found["communication"]["shmcaffe"]
    assert (times["ranks"], times["visits_per_step"]) == ([0, 2], pytest.approx(1, abs=0.2))
    assert all(times[name] > 0 for name in ("tcomp", "trgw", "tulw", "tugw"))


GOOGLENET = (
    *("--set", "network.name=googlenet", "--set", "data.name=random"),
    *("--set", "data.train_images=16", "--set", "data.test_images=4", "--set", "train.batch=4"),
)
_TRIES, _TOLERANCE = 3, 2
"""Other programs on these cores take time in the parts of a step, and between them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "steps"),
    [
        pytest.param((), 60, id="lenet"),
        pytest.param(GOOGLENET, 5, id="googlenet", marks=pytest.mark.long),
    ],
)
def test_stages_add_up_to_the_step_and_records_cost_little(
    tmp_path: Path, words: tuple[str, ...], steps: int
) -> None:
    for number in range(_TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = profile(folder, "--workers", "1", "--steps", str(steps), *words)
        checks = {each["name"]: each for each in found["checks"]}
        assert set(checks) >= {*_EXACT, *_TIMED}
        assert all(checks[name]["passed"] for name in _EXACT)
        far = {name: checks[name]["value"] / checks[name]["limit"] for name in _TIMED}
        if max(far.values()) <= _TOLERANCE:
            break
    else:
        pytest.fail(f"in the last of {_TRIES} profiles, in terms of the limits: {far}")
    inside = sum(each["seconds"]["mean"] for each in found["stages"])
    assert inside > 0.5 * found["step_seconds"]["mean"]
    assert found["overhead"]["records_per_step"] >= sum(each["calls"] for each in found["stages"])


_EXACT = ("records dropped", "operations against the network's")
_TIMED = (
    "rest of a step",
    "clocks of the run against a clock of its own",
    "cost of the records",
)
