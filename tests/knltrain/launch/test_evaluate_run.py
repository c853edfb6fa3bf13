"""What is said where there is nothing to evaluate; the figures are compared in test_training.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.checkpoint.contents import RunIdentity, WorkerState
from knltrain.checkpoint.writer import CheckpointWriter
from knltrain.config import RunConfig
from knltrain.data.contents import DataContents, HalfContents
from knltrain.errors import (
    CheckpointError,
    ConfigError,
    DamagedCheckpoint,
    KnltrainError,
    RunFolderError,
)
from knltrain.exchange.transports.loopback import Loopback
from knltrain.launch import evaluate_run as module
from knltrain.launch.evaluate_run import evaluate_run
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not the folder of a run"):
        evaluate_run(tmp_path)


def test_a_run_without_a_checkpoint_is_refused(tmp_path: Path, run_toml: str) -> None:
    (tmp_path / "config.toml").write_text(run_toml)
    with pytest.raises(CheckpointError, match=r"no checkpoint .* checkpoint.every_epochs"):
        evaluate_run(tmp_path)


def test_only_the_name_and_the_place_of_the_data_may_change(tmp_path: Path) -> None:
    only = r"--set seed=2: .*only data\.name, data\.root, evaluation\.crops may"
    with pytest.raises(ConfigError, match=only):
        evaluate_run(tmp_path, ("data.root=/a", "data.name=mnist", "seed=2"))


Asked = Callable[[str], tuple[RunConfig, int, int]]


@pytest.fixture
def asked(tmp_path: Path, run_toml: str, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """asked(backend): config, batch, threads that a run with this table is evaluated by."""
    network = lenet()
    packed = ParameterVector(network).packed
    identity = RunIdentity(network, 1, "sync_easgd", 1)
    writer = CheckpointWriter(tmp_path, identity, Loopback(packed.size), 1)
    writer.save(WorkerState(1, packed, packed, {}, {}))
    found: list[tuple[RunConfig, int, int]] = []

    def refuse(config: RunConfig, network: Network, batch: int, threads: int) -> NoReturn:
        found.append((config, batch, threads))
        raise KnltrainError("enough")

    monkeypatch.setattr(module, "build_backend", refuse)

    def ask(backend: str) -> tuple[RunConfig, int, int]:
        (tmp_path / "config.toml").write_text(f"{run_toml}[backend]\n{backend}\n")
        with pytest.raises(KnltrainError, match="enough"):
            evaluate_run(tmp_path)
        return found[-1]

    return ask


def test_no_more_threads_than_cores_are_used_here(asked: Asked) -> None:
    """The run may come from a larger machine."""
    assert asked("threads = 4096")[2] == len(physical_cores(read_topology(), allowed_cpus()))


@pytest.mark.parametrize(
    ("micro_batch", "expected"), [("0", 16), ('"auto"', 16), ("4", 4), ("99", 16)]
)
def test_as_many_images_at_once_as_the_run_took_and_nothing_is_measured(
    asked: Asked, micro_batch: str, expected: int
) -> None:
    """Also where the network could not be given slices of so many workers' batches."""
    config, batch, _ = asked(f"micro_batch = {micro_batch}")
    assert batch == expected
    assert config.backend.micro_batch == 0


def test_damaged_checkpoint_is_passed_over_and_left_where_it_is(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may be going on."""
    (tmp_path / "checkpoint-2").mkdir()
    loaded: list[int] = []
    monkeypatch.setattr(module, "check_data", lambda found, *_: loaded.append(found.step) or [])
    asked("threads = 1")
    assert loaded == [1]
    assert (tmp_path / "checkpoint-2").is_dir()
    (tmp_path / "checkpoint-1" / "center.safetensors").unlink()
    with pytest.raises(
        DamagedCheckpoint, match=r"checkpoint-2/.*checkpoint-1/.*no checkpoint is whole"
    ):
        evaluate_run(tmp_path)


def test_other_data_are_refused_with_both_or_accepted(
    tmp_path: Path, run_toml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text(run_toml)
    half = HalfContents(9, (28, 28, 1), "0" * 32)
    network = lenet()
    packed = ParameterVector(network).packed
    identity = RunIdentity(network, 1, "sync_easgd", 1, DataContents("others", half, half))
    writer = CheckpointWriter(tmp_path, identity, Loopback(packed.size), 1)
    writer.save(WorkerState(1, packed, packed, {}, {}))
    with pytest.raises(CheckpointError, match=r"from 'others' with 9 .* now there is 'digits'"):
        evaluate_run(tmp_path)
    with pytest.raises(CheckpointError, match=r"now there is 'synthetic'"):
        evaluate_run(tmp_path, ("data.name=synthetic",))
    (note,) = evaluate_run(tmp_path, accepts_other_data=True).notes
    assert note.startswith("--accept-other-data: the run has learned from 'others'")
