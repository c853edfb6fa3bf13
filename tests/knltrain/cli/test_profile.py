"""The words of a profile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.config import RunConfig
from knltrain.errors import ConfigError, RunFolderError

Invoke = Callable[..., Result]

STAGE = {
    "place": 0, "name": "conv", "layers": ["conv"], "class": "convolution 3x3",
    "direction": "forward", "algorithm": "direct", "does_for": [], "calls": 1.0,
    "seconds": {"mean": 2e-3, "median": 2e-3, "p05": 2e-3, "p95": 2e-3, "max": 2e-3},
    "by_rank": [2e-3], "flops": 10**6, "executed_flops": 10**6, "compulsory_bytes": 10**4,
    "layout_bytes": 10**4, "unfused_bytes": 10**4, "intensity": 100.0, "flops_per_second": 5e8,
    "share_of_sgemm": 0.5, "bytes_per_second": 5e6, "share_of_copy": 0.1, "bound": "compute",
    "bound_seconds": 1e-3, "efficiency": 0.5,
}  # fmt: skip
PROFILE = {
    "schema": "knltrain.profile",
    "version": [1, 0],
    "network": {"name": "small"},
    "batch_per_worker": 8, "batches_per_step": 1, "workers": 1, "threads_per_worker": 1,
    "method": "none",
    "window": {"steps": 4, "thirds": [3e-3, 3e-3, 3e-3]},
    "step_seconds": {"mean": 3e-3, "median": 3e-3, "p05": 3e-3, "p95": 3e-3, "max": 3e-3},
    "overhead": {
        "records_per_step": 5, "record_seconds": 1e-7, "fold_seconds": 1e-5, "share": 1e-4,
        "aa_noise_share": 0.01,
    },
    "exchanges": [],
    "communication": {}, "efficiency": {},
    "machine": [{"sgemm_flops_per_second": 1e9, "copy_bytes_per_second": 1e8}],
    "ranks": [{}],
    "stages": [STAGE],
    "parts": [{"name": "update", "seconds": 1e-3}],
    "checks": [],
}  # fmt: skip


@pytest.fixture
def profiled(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/profile.json").write_text(json.dumps(PROFILE))
    return tmp_path / "run"


def test_a_configuration_is_trained_for_so_many_steps_without_all_else(
    invoke: Invoke, config_file: Path, profiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = pytest.importorskip("knltrain.launch.training")
    seen: list[RunConfig] = []

    def train(config: RunConfig) -> Path:
        seen.append(config)
        return profiled

    monkeypatch.setattr(training, "train", train)
    shown = invoke("profile", str(config_file), "--steps", "7", "--set", "train.batch=16")
    (config,) = seen
    assert (config.train.steps, config.train.profile_steps, config.train.batch) == (13, 7, 16)
    assert config.name == f"{config_file.stem}-profile"
    assert not (config.evaluation.at_end or config.evaluation.period(5))
    assert not (config.checkpoint.at_end or config.checkpoint.period(5))
    assert config.checkpoint.every_minutes == 0
    assert "convolution 3x3" in shown.output
    assert (profiled / "profile.csv").exists()
    assert (profiled / "roofline.png").exists()
    assert (profiled / "layers.png").exists()


def test_the_profile_of_a_run_is_shown_again(invoke: Invoke, profiled: Path) -> None:
    assert json.loads(invoke("profile", str(profiled), "--json").output) == PROFILE
    assert "conv " in invoke("profile", str(profiled)).output


def test_another_run_is_set_beside(invoke: Invoke, profiled: Path, tmp_path: Path) -> None:
    assert "other ms" in invoke("profile", str(profiled), "--compare", str(profiled)).output
    ended = invoke("profile", str(profiled), "--compare", str(tmp_path))
    assert isinstance(ended.exception, RunFolderError)


@pytest.mark.parametrize("lost", ["stages", "step_seconds", "machine", "checks"])
def test_a_damaged_profile_is_named(invoke: Invoke, profiled: Path, lost: str) -> None:
    for broken in ({}, {lost: None}):
        kept = {name: value for name, value in PROFILE.items() if name != lost}
        (profiled / "profile.json").write_text(json.dumps({**kept, **broken}))
        ended = invoke("profile", str(profiled))
        assert isinstance(ended.exception, RunFolderError), ended.exception
        assert "damaged" in str(ended.exception)


@pytest.mark.parametrize("broken", [{"network": None}, {"parts": 3}, {"batch_per_worker": 0}])
@pytest.mark.parametrize("side", ["here", "there"])
def test_of_two_profiles_the_damaged_one_is_named(
    invoke: Invoke, profiled: Path, tmp_path: Path, broken: dict[str, object], side: str
) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/profile.json").write_text(json.dumps({**PROFILE, **broken}))
    runs = [str(tmp_path / "damaged"), str(profiled)]
    here, there = runs if side == "here" else reversed(runs)
    ended = invoke("profile", here, "--compare", there)
    assert isinstance(ended.exception, RunFolderError), ended.exception
    assert f"{tmp_path / 'damaged' / 'profile.json'}: damaged" in str(ended.exception)


def test_a_damaged_profile_is_named_before_anything_is_trained(
    invoke: Invoke, config_file: Path, profiled: Path
) -> None:
    (profiled / "profile.json").write_text(json.dumps({**PROFILE, "network": None}))
    ended = invoke("profile", str(config_file), "--compare", str(profiled))
    assert isinstance(ended.exception, RunFolderError), ended.exception


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "train.profile_steps=0"), "--set train.profile_steps: expected --steps"),
        (("--set", "train.epochs=3"), "--set train.epochs: expected --steps"),
        (("--workers", "2", "--set", "workers=1"), "--set workers: expected --workers alone"),
        (("--name", "a", "--set", "name=b"), "--set name: expected --name alone"),
        (("--json", "--compare", "."), "--compare shows tables: leave --json out"),
        (("--steps", "0"), "0 is not in the range"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    invoke: Invoke, config_file: Path, options: tuple[str, ...], message: str
) -> None:
    ended = invoke("profile", str(config_file), *options)
    assert ended.exit_code == 2
    assert message in ended.output


def test_a_run_that_is_there_is_not_trained_again(invoke: Invoke, profiled: Path) -> None:
    ended = invoke("profile", str(profiled), "--set", "workers=2")
    assert "--set is for a CONFIG, not for the folder of a run" in ended.output


def test_a_profile_of_another_network_is_refused_before_anything_is_trained(
    invoke: Invoke, config_file: Path, profiled: Path
) -> None:
    ended = invoke("profile", str(config_file), "--compare", str(profiled))
    assert isinstance(ended.exception, ConfigError)
    assert "--compare: a profile of small, and " in str(ended.exception)


def test_a_run_without_a_profile_is_named(invoke: Invoke, tmp_path: Path) -> None:
    ended = invoke("profile", str(tmp_path))
    assert isinstance(ended.exception, RunFolderError)
    assert "no such file: expected a run by `knltrain profile CONFIG`" in str(ended.exception)
