"""What is said where there is nothing to evaluate; the figures are compared in test_training.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
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
    DataError,
    KnltrainError,
    RunFolderError,
)
from knltrain.evaluation import Evaluation
from knltrain.exchange.transports.loopback import Loopback
from knltrain.launch import evaluate_run as module
from knltrain.launch.evaluate_run import Half, evaluate_run
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet

from ..trained_run import picture_of, trained_run, write_pictures


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


NAMES = {"dark": "night", "light": "day", "split": "dusk"}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run that knows day, dusk and night, in this order."""
    root = write_pictures(tmp_path_factory.mktemp("pictures"), NAMES)
    return trained_run(tmp_path_factory.mktemp("runs") / "run", root)


def evaluated(run_folder: Path, root: Path, *more: str, half: Half = "test") -> Evaluation:
    data = ("name=folder", f"root={root}", *more)
    return evaluate_run(run_folder, data=data, half=half).found


def test_classes_of_another_data_set_are_matched_by_their_names(
    run_folder: Path, tmp_path: Path
) -> None:
    """Folders sort their classes: a file gives them another order."""
    write_pictures(tmp_path / "a", NAMES, count=5)
    (tmp_path / "a/order.txt").write_text("night\ndusk\nday\n")
    told = evaluated(run_folder, tmp_path / "a")
    turned = evaluated(run_folder, tmp_path / "a", "class_names=order.txt")
    assert turned == told
    assert (told.accuracy, told.images) == (1.0, 15)
    assert evaluated(run_folder, tmp_path / "a", "train_images=4", half="train").images == 4


def test_the_classes_may_lie_in_root_and_be_some_of_those_that_are_known(
    run_folder: Path, tmp_path: Path
) -> None:
    write_pictures(tmp_path, {"dark": "night", "split": "dusk"}, count=3)
    data = ("name=folder", f"root={tmp_path}/train", "test=.")
    found = evaluate_run(run_folder, data=data)
    assert "the data set has no classes 'day'" in "".join(found.notes)
    assert found.class_names == ("day", "dusk", "night")
    assert found.found.classes is not None
    assert found.found.classes.confusion == ((0, 0, 0), (0, 3, 0), (0, 0, 3))


def test_pictures_of_another_size_and_format_are_prepared_as_the_model_takes_them(
    run_folder: Path, tmp_path: Path
) -> None:
    pixels = np.stack([picture_of(kind, 7) for kind in ("light", "split", "dark")]).mean(axis=3)
    large = np.repeat(np.repeat(pixels, 2, axis=1), 2, axis=2).astype(np.uint8)
    np.savez(tmp_path / "train.npz", images=large, labels=np.arange(3))
    np.savez(tmp_path / "test.npz", images=large, labels=np.arange(3))
    (tmp_path / "classes.txt").write_text("day\ndusk\nnight\n")
    data = ["name=numpy", f"root={tmp_path}", "train=train.npz", "test=test.npz"]
    assert evaluate_run(run_folder, data=data).found.accuracy == 1
    colours = np.repeat(large[..., None], 3, axis=3)
    for half in ("train", "test"):
        np.savez(tmp_path / f"{half}.npz", images=colours, labels=np.arange(3))
    with pytest.raises(ConfigError, match="pictures have 3 channels, the model takes 1"):
        evaluate_run(run_folder, data=data)


def test_classes_that_the_model_does_not_know_are_refused(run_folder: Path, tmp_path: Path) -> None:
    write_pictures(tmp_path, {"dark": "night", "split": "dawn"}, count=1)
    with pytest.raises(DataError, match="not know the classes 'dawn': expected some of 'day'"):
        evaluated(run_folder, tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("recipe=none", "the model has its own preprocessing"),
        ("mean=3", "the model has its own preprocessing"),
        ("rot=/a", "did you mean 'data.root'"),
        ("root", "expected KEY=VALUE"),
    ],
)
def test_keys_of_another_data_set(run_folder: Path, given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        evaluate_run(run_folder, data=("name=folder", given))


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
    note, _ = evaluate_run(tmp_path, accepts_other_data=True).notes
    assert note.startswith("--accept-other-data: the run has learned from 'others'")
