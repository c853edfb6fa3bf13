"""Run folders on a real file system: none shared, none half written."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knltrain.assembly import build_network
from knltrain.config import load_config
from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.errors import DataError, RunFolderError
from knltrain.launch.run_folder import (
    create_run_folder,
    forget_places,
    held,
    read_config,
    read_preprocessing,
    run_folder_of,
    write_config,
    write_network,
    write_part,
    write_placement,
    write_preprocessing,
)
from knltrain.network.zoo.lenet import lenet

CONFIG = """
[network]
name = "lenet"
[data]
name = "digits"
[train]
steps = 3
batch = 4
[learning_rate]
base = 0.01
"""


def test_described_network_is_that_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text(CONFIG)
    config = load_config(tmp_path / "given.toml", ["network.name=own.json"])
    folder = tmp_path / "run"
    folder.mkdir()
    network = replace(lenet(), name="own")
    write_network(folder, network)
    write_config(folder, config)
    assert read_config(folder).network.name == str(folder / "network.json")
    again = load_config(folder / "config.toml")
    assert build_network(again) == build_network(read_config(folder)) == network
    moved = folder.rename(tmp_path / "moved")
    assert build_network(read_config(moved)) == network


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    names = [create_run_folder(tmp_path / "a" / "runs", "run").name for _ in range(3)]
    assert names == ["run", "run-2", "run-3"]


def test_runs_that_start_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: create_run_folder(tmp_path, "run"), range(24)))
    assert len(set(folders)) == 24


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(tmp_path: Path) -> None:
    taken = tmp_path / "runs"
    taken.write_text("a file")
    with pytest.raises(RunFolderError, match=r"cannot make .*runs'.*--set runs_folder="):
        create_run_folder(taken, "run")


def test_a_read_only_folder_is_named() -> None:
    with pytest.raises(RunFolderError, match=r"in '/sys/kernel' \(.*: /sys/kernel/run\)"):
        create_run_folder(Path("/sys/kernel"), "run")


def test_a_file_that_cannot_be_written_is_named() -> None:
    with pytest.raises(RunFolderError, match=r"cannot write '/sys/kernel/placement.json'"):
        write_placement(Path("/sys/kernel"), [])


def test_a_run_can_be_read_back_from_its_folder(tmp_path: Path) -> None:
    source = tmp_path / "source.toml"
    source.write_text(CONFIG)
    config = load_config(source)
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config
    assert read_config(tmp_path, ("train.steps=9",)).train.steps == 9


def test_a_folder_without_a_configuration_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"not the folder of a run: expected a file .*toml"):
        read_config(tmp_path)


def test_a_folder_in_use_is_refused_until_its_user_ends(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from knltrain.launch.run_folder import held\n"
        "with held(pathlib.Path(sys.argv[1])): print('in', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"in\n"
        with pytest.raises(RunFolderError, match="another run is using"), held(tmp_path):
            pass
        user.kill()
    with held(tmp_path):
        pass


def test_placement_is_readable_json_and_no_half_file_stays(tmp_path: Path) -> None:
    write_placement(tmp_path, [{"rank": 0, "asked": {"cpus": "0-1"}, "got": None}])
    assert [path.name for path in tmp_path.iterdir()] == ["placement.json"]
    written = json.loads((tmp_path / "placement.json").read_text())
    assert written["workers"][0]["asked"]["cpus"] == "0-1"


def test_parts_of_the_data_have_a_file_for_each_node(tmp_path: Path) -> None:
    for node in (0, 2):
        write_part(tmp_path, {"node": node, "bytes": 7})
    assert json.loads((tmp_path / "data.json").read_text()) == {"node": 0, "bytes": 7}
    assert json.loads((tmp_path / "data-2.json").read_text())["node"] == 2


def test_places_of_nodes_that_are_no_more_are_forgotten(tmp_path: Path) -> None:
    for first in (0, 2):
        write_placement(tmp_path, [], first)
        write_part(tmp_path, {"node": first})
    (tmp_path / "data-own.json").touch()
    forget_places(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data-own.json"]


def test_preprocessing_is_kept_beside_the_network(tmp_path: Path) -> None:
    assert read_preprocessing(tmp_path) is None
    one = np.ones(1, np.float32)
    known = ModelPreprocessing((8, 8, 1), None, False, Normalisation(one, one), ("a", "b"))
    write_preprocessing(tmp_path, known)
    found = read_preprocessing(tmp_path)
    assert found is not None
    assert found.to_json() == known.to_json()
    path = tmp_path / "preprocessing.json"
    path.write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"preprocessing\.json: not UTF-8 text at byte 0"):
        read_preprocessing(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunFolderError, match=r"cannot read '.*preprocessing"):
        read_preprocessing(tmp_path)


def test_a_checkpoint_stands_for_its_run(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint-7"
    checkpoint.mkdir()
    assert run_folder_of(tmp_path) == (tmp_path, None)
    assert run_folder_of(checkpoint) == (tmp_path, checkpoint)
    (checkpoint / "config.toml").touch()  # a run that is called so
    assert run_folder_of(checkpoint) == (checkpoint, None)
