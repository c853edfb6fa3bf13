"""Checkpoints are written by all workers together, whole or not at all."""

from __future__ import annotations

import errno
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest

from knltrain.checkpoint import writer as writer_module
from knltrain.checkpoint.contents import WorkerState
from knltrain.checkpoint.folders import by_step, latest_checkpoint
from knltrain.checkpoint.newest import newest_whole
from knltrain.checkpoint.writer import CheckpointWriter
from knltrain.errors import CheckpointError
from knltrain.exchange.transports.loopback import Loopback
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


def test_each_worker_keeps_its_own_state(
    in_threads, writer, state, tiny_network, tmp_path, load_both
):
    in_threads(
        tiny_network.packed_size,
        3,
        lambda transport: writer(transport=transport).save(state(4, transport.rank)),
    )
    folder = tmp_path / "checkpoint-4"
    for rank in range(3):
        expected = state(4, rank)
        _, loaded = load_both(folder, expected, rank, workers=3)
        np.testing.assert_array_equal(loaded.local, expected.local)
        np.testing.assert_array_equal(loaded.optimizer["velocity"], expected.optimizer["velocity"])


def test_checkpoint_gets_its_name_only_when_all_workers_have_written(
    in_threads, writer, state, tiny_network, tmp_path, monkeypatch
):
    seen = []
    publish, write_worker = writer_module._publish, writer_module._write_worker

    def watched(partial, folder):
        seen.append((sorted(path.name for path in partial.iterdir()), latest_checkpoint(tmp_path)))
        publish(partial, folder)

    def late(path, state):
        time.sleep(0.05 if path.name == "worker-1.safetensors" else 0)
        write_worker(path, state)

    monkeypatch.setattr(writer_module, "_publish", watched)
    monkeypatch.setattr(writer_module, "_write_worker", late)
    in_threads(
        tiny_network.packed_size,
        2,
        lambda transport: writer(transport=transport).save(state(4, transport.rank)),
    )
    files = ["center.safetensors", "state.json", "worker-0.safetensors", "worker-1.safetensors"]
    assert seen == [(files, None)]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_and_those_known_to_be_good_are_kept(writer, state, tmp_path):
    keeps = writer(keep=2)
    for step in (8, 9, 10, 11):
        keeps.save(state(step))
    assert names_in(tmp_path) == ["checkpoint-10", "checkpoint-11", "checkpoint-9"]
    keeps.save(state(100))
    assert names_in(tmp_path) == ["checkpoint-10", "checkpoint-100", "checkpoint-11"]
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-100"


def test_model_that_diverged_is_no_checkpoint_and_the_one_before_it_is(writer, state, tmp_path):
    keeps = writer(keep=1)
    for step in (1, 2, 3):
        keeps.save(state(step))
    keeps.set_aside(3)
    assert names_in(tmp_path) == ["checkpoint-2", "checkpoint-3.diverged"]
    keeps.save(state(3))
    (tmp_path / "checkpoint-3" / "again").touch()
    keeps.set_aside(3)
    assert names_in(tmp_path) == ["checkpoint-2", "checkpoint-3.diverged"]
    assert "again" in names_in(tmp_path / "checkpoint-3.diverged")


def test_all_workers_may_set_the_same_checkpoint_aside(writer, state, tmp_path, monkeypatch):
    """One comes in between the other's looking for an older folder and its own renaming."""
    writer().save(state(3))
    files = names_in(tmp_path / "checkpoint-3")
    late = Loopback(1)
    late.rank = 1
    remove = shutil.rmtree

    def meanwhile(folder, **options):
        monkeypatch.setattr(writer_module.shutil, "rmtree", remove)
        writer(transport=late).set_aside(3)
        remove(folder, **options)

    monkeypatch.setattr(writer_module.shutil, "rmtree", meanwhile)
    writer().set_aside(3)
    assert names_in(tmp_path) == ["checkpoint-3.diverged"]
    assert names_in(tmp_path / "checkpoint-3.diverged") == files


def test_checkpoint_that_cannot_be_set_aside_hides_no_other_error(writer, state, tmp_path):
    keeps = writer()
    for step in (2, 3):
        keeps.save(state(step))
    (tmp_path / "checkpoint-3.diverged").write_text("a file, where the folder is to go")
    keeps.set_aside(3)
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    keeps.save(state(3))
    assert names_in(tmp_path) == ["checkpoint-2", "checkpoint-3", "checkpoint-3.diverged"]


def test_without_a_checkpoint_of_the_step_nothing_is_set_aside(writer, state, tmp_path):
    keeps = writer(keep=1)
    keeps.save(state(1))
    keeps.set_aside(2)
    assert names_in(tmp_path) == ["checkpoint-1"]


def test_failed_write_keeps_the_checkpoint_before_it(
    writer, state, tiny_network, tmp_path, monkeypatch, load_both
):
    keeps = writer(keep=1)
    keeps.save(state(1))

    def full(_path):
        raise OSError(errno.ENOSPC, "No space left on device", "worker-0.safetensors")

    with monkeypatch.context() as patched:
        patched.setattr(writer_module, "sync", full)
        with pytest.raises(CheckpointError, match=r"checkpoint-2: cannot write .*No space left"):
            keeps.save(state(2))
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-1"
    load_both(tmp_path / "checkpoint-1", state(1))
    assert names_in(tmp_path) == ["checkpoint-1"]
    keeps.save(state(3))
    assert names_in(tmp_path) == ["checkpoint-1", "checkpoint-3"]


@pytest.mark.parametrize("failing", [0, 1])
def test_worker_that_cannot_write_is_the_one_that_says_so(
    in_threads, writer, state, tiny_network, tmp_path, monkeypatch, failing
):
    """The other writes last, when one that did not wait for it would have tidied up long ago."""
    write_worker, has_failed = writer_module._write_worker, threading.Event()
    raised = {}

    def fails_or_is_late(path, state):
        if path.name == f"worker-{failing}.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device", path.name)
        has_failed.wait(0.2)
        write_worker(path, state)

    def save(transport):
        try:
            writer(transport=transport).save(state(4, transport.rank))
        except CheckpointError as error:
            raised[transport.rank] = error
        finally:
            has_failed.set()

    monkeypatch.setattr(writer_module, "_write_worker", fails_or_is_late)
    in_threads(tiny_network.packed_size, 2, save)
    assert "No space left" in str(raised[failing])
    assert raised[failing].__cause__ is not None
    assert "another worker could not write its part" in str(raised[1 - failing])
    assert raised[1 - failing].__cause__ is None
    assert names_in(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system that holds one of the checkpoints below, but not two."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=384k", "knltrain-test", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small file system can be mounted here: {error}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_leaves_the_checkpoint_before_it_and_no_part(small_disk, identity):
    network = Network("wide", (1, 1, 10_000), (Dense("out", 2),))
    packed = ParameterVector(network).packed
    keeps = CheckpointWriter(small_disk, identity(network), Loopback(packed.size), 1)
    keeps.save(WorkerState(1, packed, packed, {}, {}))
    expected = r"checkpoint-2: cannot write .*\.safetensors.*No space left.*make room"
    with pytest.raises(CheckpointError, match=expected):
        keeps.save(WorkerState(2, packed, packed, {"velocity": packed}, {}))
    assert names_in(small_disk) == ["checkpoint-1"]


def test_steps_taken_anew_replace_the_checkpoints_they_pass(
    writer, state, tiny_network, tmp_path, load_both
):
    for step in (2, 4, 6):
        writer(keep=3).save(state(step))
    anew = writer(keep=1)
    changed = state(4, rank=3)
    anew.save(changed)
    assert names_in(tmp_path) == ["checkpoint-2", "checkpoint-4"]
    _, loaded = load_both(tmp_path / "checkpoint-4", changed)
    np.testing.assert_array_equal(loaded.local, changed.local)


def test_folder_that_cannot_be_written_is_named(writer, state, tmp_path):
    keeps = writer()
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointError, match="checkpoint-1: cannot write the checkpoint"):
        keeps.save(state(1))


class Killed(BaseException):
    """As if the process had ended there."""


def test_kill_while_an_old_checkpoint_is_removed_leaves_no_half_of_one(
    writer, state, tmp_path, monkeypatch
):
    """Also where it lies beyond the step, and would be the newest."""
    for step in (2, 4, 6):
        writer(keep=3).save(state(step))

    def killed(folder, **options):
        (folder / "state.json").unlink()
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(writer_module.shutil, "rmtree", killed)
        with pytest.raises(Killed):
            writer(keep=3).save(state(5))
    assert newest_whole(tmp_path) == (tmp_path / "checkpoint-5", [])
    assert [step for step, _ in by_step(tmp_path)] == [2, 4, 5]
    writer(keep=3).save(state(7))
    assert names_in(tmp_path) == ["checkpoint-2", "checkpoint-4", "checkpoint-5", "checkpoint-7"]


def test_old_checkpoint_that_cannot_be_removed_does_not_matter(
    writer, state, tmp_path, monkeypatch
):
    keeps = writer(keep=1)
    for step in (1, 2):
        keeps.save(state(step))

    def refuse(_path, **options):
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr(writer_module.shutil.os, "unlink", refuse)
        for step in (3, 4, 4, 4, 5, 3, 4, 4, 5):
            keeps.save(state(step))
    assert [step for step, _ in by_step(tmp_path)] == [4, 5]
    keeps.save(state(6))
    assert names_in(tmp_path) == ["checkpoint-5", "checkpoint-6"]


def test_unfinished_checkpoint_that_cannot_be_removed_is_in_nobodys_way(
    writer, state, tmp_path, monkeypatch
):
    """As where a network file system keeps the file that a killed computer had open."""
    keeps = writer(keep=1)

    def refuse(_path, **options):
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr(writer_module.shutil.os, "unlink", refuse)
        for name in (".checkpoint-2.partial", ".checkpoint-2.stuck-1.partial"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").touch()
        keeps.save(state(2))
    assert newest_whole(tmp_path) == (tmp_path / "checkpoint-2", [])
    keeps.save(state(3))
    assert names_in(tmp_path) == ["checkpoint-2", "checkpoint-3"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("failing", [1, 2])
def test_checkpoint_whose_name_is_not_seen_to_the_disk_is_none(
    writer, state, tmp_path, monkeypatch, failing
):
    """At its own folder's turn or at the run folder's, where one of the same step was, too."""
    keeps = writer()
    keeps.save(state(3))
    changed, folders = state(3, rank=4), []

    def broken(path):
        if path.is_dir():
            folders.append(path)
            if len(folders) == failing:
                raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(writer_module, "sync", broken)
        with pytest.raises(CheckpointError, match="Input/output error"):
            keeps.save(changed)
    assert names_in(tmp_path) == ["checkpoint-3"]
    assert newest_whole(tmp_path)[1] == []
