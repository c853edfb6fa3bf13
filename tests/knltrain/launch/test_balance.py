"""Runs of workers with unequal shares of a batch: as one worker, to the bit again, or fitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from knltrain.balance.record import read_shares
from tests.knltrain.marks import by_cost

LIMIT_SECONDS = 240.0
SLOW = pytest.mark.slow
SETTINGS = (
    "exchange.method=sync_sgd",
    "train.iter_size=2",
    "placement.pin=false",
    "backend.threads=1",
    "checkpoint.every_epochs=0",
)


@pytest.fixture
def train(tmp_path: Path, run_toml: str, start_knltrain: Callable[..., object]):
    """train(settings): the run's folder."""
    (tmp_path / "run.toml").write_text(run_toml)

    def run(name: str, *settings: str) -> Path:
        words = [word for one in (*SETTINGS, *settings) for word in ("--set", one)]
        command = ("train", "run.toml", "--set", f"name={name}", *words)
        with start_knltrain(*command, cwd=tmp_path) as process:
            _, err = process.communicate(timeout=LIMIT_SECONDS)
        assert (process.returncode, err) == (0, "")
        return tmp_path / "runs" / name

    return run


def weights(folder: Path) -> dict[str, np.ndarray]:
    (kept,) = folder.glob("checkpoint-*")
    return load_file(kept / "center.safetensors")


MORE = {
    "itself": (),
    "data pool": ("placement.data_cores=1",),
    "by layer": ("exchange.method=layerwise_sgd",),
    "caffegpi": ("exchange.method=caffegpi",),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", by_cost(MORE, "data pool", "caffegpi", quick="itself"))
def test_workers_of_unequal_shares_train_as_one_of_the_whole_batch(train, kind):
    alone = train("alone", "workers=1", "train.steps=4")
    shared = train("shared", "workers=2", "train.steps=4", "balance.shares=[11,5]", *MORE[kind])
    assert read_shares(shared / "shares.csv", 16, 2)[0].images == (11, 5)
    expected = weights(alone)
    for name, values in weights(shared).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
    found = [json.loads((each / "result.json").read_text()) for each in (alone, shared)]
    assert found[0]["test_accuracy"] == found[1]["test_accuracy"]


@SLOW
def test_fitted_shares_follow_the_speeds_and_can_be_replayed_to_the_bit(train):
    speeds = "balance.emulated_images_per_second=[25,75]"
    fitting = ("balance.shares=fitted", "balance.granule=2", "balance.refit_steps=2")
    first = train("first", "workers=2", "train.steps=6", speeds, *fitting)
    rows = read_shares(first / "shares.csv", 16, 2)
    fewer, more = rows[0].images  # (4, 12), but for noise
    assert fewer < more
    replay = f"balance.replay={first / 'shares.csv'}"
    again = train("again", "workers=2", "train.steps=6", replay)
    assert read_shares(again / "shares.csv", 16, 2) == rows
    expected = weights(first)
    for name, values in weights(again).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), pytest.param(("placement.data_cores=1",), marks=SLOW)])
def test_a_worker_without_images_only_exchanges(train, more):
    folder = train("idle", "workers=2", "train.steps=6", "balance.shares=[16,0]", *more)
    assert json.loads((folder / "result.json").read_text())["worker_steps"] == [6, 6]


@SLOW
def test_workers_with_different_backends_train_one_model(train):
    """One computes by PyTorch and takes more of the batch, the other by knltrain's kernels."""
    alone = train("alone", "workers=1", "train.steps=4")
    of_torch = 'backend.workers=[{ranks="0", name="torch"}]'
    mixed = train("mixed", "workers=2", "train.steps=4", "balance.shares=[10,6]", of_torch)
    expected = weights(alone)
    for name, values in weights(mixed).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-3, atol=1e-4, err_msg=name)


@SLOW
def test_the_faster_of_two_workers_that_come_alone_takes_more_steps_between_its_visits(train):
    speeds = "balance.emulated_images_per_second=[50,200]"
    of_pace = ("balance.periods=by_speed", "exchange.communication_period=2")
    folder = train(
        "paced", "workers=2", "train.steps=8", "exchange.method=seasgd", "train.iter_size=1",
        speeds, *of_pace,
    )  # fmt: skip
    rows = [row.split(",") for row in (folder / "periods.csv").read_text().splitlines()[1:]]
    assert rows[0][:2] == ["0", "2"]
    assert 4 <= int(rows[1][1]) <= 8  # 8, but for noise
