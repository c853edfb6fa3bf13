"""The model that other programs are to have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from knltrain.checkpoint.contents import RunIdentity, WorkerState
from knltrain.checkpoint.writer import CheckpointWriter
from knltrain.errors import CheckpointError, ConfigError
from knltrain.exchange.transports.loopback import Loopback
from knltrain.launch.trained_model import trained_model
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet


@pytest.fixture
def run_folder(tmp_path: Path, run_toml: str) -> Path:
    (tmp_path / "config.toml").write_text(run_toml)
    network = lenet()
    identity = RunIdentity(network, 1, "sync_easgd", 1)
    writer = CheckpointWriter(tmp_path, identity, Loopback(network.packed_size), 1)
    for step in (1, 2):
        packed = ParameterVector(network).packed
        packed.fill(step)
        writer.save(WorkerState(step, packed, packed, {}, {}))
    return tmp_path


def test_run_gives_its_newest_whole_checkpoint(run_folder: Path) -> None:
    found = trained_model(str(run_folder), None)
    assert (found.network.name, found.origin) == ("lenet", run_folder / "checkpoint-2")
    assert found.parameters.packed[0] == 2
    (run_folder / "checkpoint-2/center.safetensors").unlink()
    found = trained_model(str(run_folder), None)
    assert found.parameters.packed[0] == 1
    (note,) = found.notes
    assert "checkpoint-1 is taken" in note


def test_run_without_a_checkpoint_is_named(tmp_path: Path, run_toml: str) -> None:
    (tmp_path / "config.toml").write_text(run_toml)
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        trained_model(str(tmp_path), None)


def test_network_takes_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    parameters = ParameterVector(lenet(7))
    parameters.initialise(1)
    save_file({**parameters.views, "more": np.zeros(1, np.float32)}, file)
    found = trained_model("lenet", file, classes=7)
    assert found.parameters.packed.tobytes() == parameters.packed.tobytes()
    assert found.notes == (f"{file}: more not used by the network",)


def test_what_does_not_belong_together_is_named(run_folder: Path) -> None:
    for weights, classes in ((Path("a.pt"), None), (None, 3)):
        with pytest.raises(ConfigError, match="leave out --weights and --classes"):
            trained_model(str(run_folder), weights, classes)
    with pytest.raises(ConfigError, match="'lenet' is a network without weights"):
        trained_model("lenet", None)
