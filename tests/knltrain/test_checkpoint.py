from __future__ import annotations

import errno
import json
import shutil
import subprocess
import time

import numpy as np
import pytest

from knltrain import checkpoint as checkpoint_module
from knltrain.checkpoint import (
    CheckpointWriter,
    RunIdentity,
    WorkerState,
    latest_checkpoint,
    load_checkpoint,
    load_worker_state,
)
from knltrain.errors import CheckpointError
from knltrain.exchange.loopback import Loopback
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


def identity(network, workers=1, **changes):
    facts = {"method": "sync_easgd", "seed": 5} | changes
    return RunIdentity(network=network, workers=workers, **facts)


@pytest.fixture
def tiny_network():
    return Network("tiny", (1, 1, 3), (Dense("out", 2),))


@pytest.fixture
def state(tiny_network):
    def state(step, rank=0):
        center = ParameterVector(tiny_network)
        center.initialise(step)
        local = ParameterVector(tiny_network)
        local.initialise(100 * step + rank)
        optimizer = {"velocity": np.full_like(local.packed, step + rank / 8)}
        seconds = {"compute": 1.5 * step, "exchange": 0.1}
        return WorkerState(step, center.packed, local.packed, optimizer, seconds)

    return state


@pytest.fixture
def writer(tmp_path, tiny_network):
    def writer(keep=2, transport=None, **changes):
        transport = transport or Loopback(tiny_network.packed_size)
        facts = identity(tiny_network, transport.workers, **changes)
        return CheckpointWriter(tmp_path, facts, transport, keep)

    return writer


def load_both(folder, network, example, rank=0, workers=1, **changes):
    checkpoint = load_checkpoint(folder, network)
    expected = identity(network, workers, **changes)
    return checkpoint, load_worker_state(
        checkpoint, rank, identity=expected, optimizer_state=example.optimizer
    )


def test_everything_comes_back_bit_for_bit(writer, state, tiny_network):
    saved = state(7)
    checkpoint, loaded = load_both(writer().save(saved), tiny_network, saved)
    assert (checkpoint.step, checkpoint.seed, checkpoint.workers) == (7, 5, 1)
    assert checkpoint.method == "sync_easgd"
    assert (loaded.step, loaded.seconds) == (7, saved.seconds)
    np.testing.assert_array_equal(loaded.center, saved.center)
    np.testing.assert_array_equal(loaded.local, saved.local)
    np.testing.assert_array_equal(loaded.optimizer["velocity"], saved.optimizer["velocity"])


def test_folder_holds_named_parameters_that_others_can_read(writer, state, tiny_network):
    from safetensors import safe_open

    folder = writer().save(state(7))
    assert folder.name == "checkpoint-7"
    assert sorted(path.name for path in folder.iterdir()) == [
        "center.safetensors",
        "state.json",
        "worker-0.safetensors",
    ]
    with safe_open(folder / "center.safetensors", framework="numpy") as file:
        metadata = json.loads(file.metadata()["checkpoint"])
        assert metadata == {"network": "tiny", "step": 7}
        shapes = {name: file.get_tensor(name).shape for name in ("out.weights", "out.bias")}
    assert shapes == {"out.weights": (2, 3), "out.bias": (2,)}
    description = json.loads((folder / "state.json").read_text())
    assert description["parameters"] == {"out.weights": [2, 3], "out.bias": [2]}


def test_each_worker_keeps_its_own_state(in_threads, writer, state, tiny_network, tmp_path):
    in_threads(
        tiny_network.packed_size,
        3,
        lambda transport: writer(transport=transport).save(state(4, transport.rank)),
    )
    folder = tmp_path / "checkpoint-4"
    for rank in range(3):
        expected = state(4, rank)
        _, loaded = load_both(folder, tiny_network, expected, rank, workers=3)
        np.testing.assert_array_equal(loaded.local, expected.local)
        np.testing.assert_array_equal(loaded.optimizer["velocity"], expected.optimizer["velocity"])


def test_checkpoint_gets_its_name_only_when_all_workers_have_written(
    in_threads, writer, state, tiny_network, tmp_path, monkeypatch
):
    seen = []
    publish, write_worker = checkpoint_module._publish, checkpoint_module._write_worker

    def watched(partial, folder):
        seen.append((sorted(path.name for path in partial.iterdir()), latest_checkpoint(tmp_path)))
        publish(partial, folder)

    def late(path, state):
        time.sleep(0.05 if path.name == "worker-1.safetensors" else 0)
        write_worker(path, state)

    monkeypatch.setattr(checkpoint_module, "_publish", watched)
    monkeypatch.setattr(checkpoint_module, "_write_worker", late)
    in_threads(
        tiny_network.packed_size,
        2,
        lambda transport: writer(transport=transport).save(state(4, transport.rank)),
    )
    files = ["center.safetensors", "state.json", "worker-0.safetensors", "worker-1.safetensors"]
    assert seen == [(files, None)]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_only_the_newest_good_ones_are_kept(writer, state, tmp_path):
    keeps = writer(keep=2)
    for step in (9, 10, 11):
        keeps.save(state(step))
    assert names_in(tmp_path) == ["checkpoint-10", "checkpoint-11", "checkpoint-9"]
    keeps.save(state(100), proved=True)
    assert names_in(tmp_path) == ["checkpoint-100", "checkpoint-11"]
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-100"


def test_model_that_diverged_is_no_checkpoint_and_the_one_before_it_is(writer, state, tmp_path):
    keeps = writer(keep=1)
    for step in (1, 2, 3):
        keeps.save(state(step))
    keeps.set_aside(3)
    keeps.set_aside(3)  # as another worker does that sees it too
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    keeps.save(state(3), proved=True)
    keeps.set_aside(3)
    assert names_in(tmp_path) == ["checkpoint-3.diverged"]


def test_without_a_checkpoint_of_the_step_nothing_is_set_aside(writer, state, tmp_path):
    keeps = writer(keep=1)
    keeps.save(state(1))
    keeps.set_aside(2)
    assert names_in(tmp_path) == ["checkpoint-1"]


def test_run_without_checkpoints_has_no_latest(tmp_path):
    (tmp_path / "checkpoint-notes").mkdir()
    (tmp_path / ".checkpoint-3.partial").mkdir()
    assert latest_checkpoint(tmp_path) is None


def test_failed_write_keeps_the_checkpoint_before_it(
    writer, state, tiny_network, tmp_path, monkeypatch
):
    keeps = writer(keep=1)
    keeps.save(state(1))

    def full(_path):
        raise OSError(errno.ENOSPC, "No space left on device", "worker-0.safetensors")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_module, "_sync", full)
        with pytest.raises(CheckpointError, match=r"checkpoint-2: cannot write .*No space left"):
            keeps.save(state(2))
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-1"
    load_both(tmp_path / "checkpoint-1", tiny_network, state(1))
    assert names_in(tmp_path) == ["checkpoint-1"]
    keeps.save(state(3), proved=True)
    assert names_in(tmp_path) == ["checkpoint-3"]


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


def test_full_disk_leaves_the_checkpoint_before_it_and_no_part(small_disk):
    network = Network("wide", (1, 1, 10_000), (Dense("out", 2),))
    packed = ParameterVector(network).packed
    keeps = CheckpointWriter(small_disk, identity(network), Loopback(packed.size), 1)
    keeps.save(WorkerState(1, packed, packed, {}, {}))
    expected = r"checkpoint-2: cannot write .*\.safetensors.*No space left.*make room"
    with pytest.raises(CheckpointError, match=expected):
        keeps.save(WorkerState(2, packed, packed, {"velocity": packed}, {}))
    assert names_in(small_disk) == ["checkpoint-1"]


def test_steps_taken_anew_replace_the_checkpoints_they_pass(writer, state, tiny_network, tmp_path):
    for step in (2, 4, 6):
        writer(keep=3).save(state(step))
    anew = writer(keep=1)
    changed = state(4, rank=3)
    anew.save(changed, proved=True)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]
    _, loaded = load_both(tmp_path / "checkpoint-4", tiny_network, changed)
    np.testing.assert_array_equal(loaded.local, changed.local)


def test_missing_checkpoint_is_named(tmp_path, tiny_network):
    with pytest.raises(CheckpointError, match="checkpoint-3: no such checkpoint"):
        load_checkpoint(tmp_path / "checkpoint-3", tiny_network)


@pytest.mark.parametrize(
    "other",
    [
        Network("other", (1, 1, 3), (Dense("out", 2),)),
        Network("tiny", (1, 1, 3), (Dense("out", 4),)),
        Network("tiny", (1, 1, 3), (Dense("last", 2),)),
    ],
    ids=["name", "shape", "layer"],
)
def test_checkpoint_of_another_network_names_both(writer, state, other):
    folder = writer().save(state(1))
    with pytest.raises(CheckpointError) as raised:
        load_checkpoint(folder, other)
    message = str(raised.value)
    assert "'tiny' with parameters {'out.weights': [2, 3], 'out.bias': [2]}" in message
    layer = other.layers[0]
    assert f"{other.name!r} with {{'{layer.name}.weights': [{layer.units}, 3]" in message


def test_other_number_of_workers_can_be_evaluated_but_not_resumed(writer, state, tiny_network):
    saved = state(1)
    folder = writer().save(saved)
    load_checkpoint(folder, tiny_network)
    with pytest.raises(CheckpointError, match=r"workers = 1, but workers = 2 was asked for"):
        load_both(folder, tiny_network, saved, workers=2)


def test_other_method_cannot_be_resumed(writer, state, tiny_network):
    saved = state(1)
    with pytest.raises(CheckpointError, match=r"exchange.method = 'sync_easgd'"):
        load_both(writer().save(saved), tiny_network, saved, method="sync_sgd")


def test_other_seed_cannot_be_resumed(writer, state, tiny_network):
    saved = state(1)
    with pytest.raises(CheckpointError, match=r"seed = 5, but seed = 6 was asked for"):
        load_both(writer().save(saved), tiny_network, saved, seed=6)


def test_damaged_checkpoint_names_the_one_to_go_on_from(writer, state, tiny_network):
    first, second = (writer().save(state(step)) for step in (9, 10))
    for folder in (first, second):
        (folder / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"remove .*checkpoint-10 to go on from checkpoint-9"):
        load_checkpoint(second, tiny_network)
    with pytest.raises(CheckpointError, match=r"damaged; start a new run"):
        load_checkpoint(first, tiny_network)


def test_other_optimizer_cannot_be_resumed(writer, state, tiny_network):
    checkpoint = load_checkpoint(writer().save(state(1)), tiny_network)
    example = {"second_moment": np.zeros(tiny_network.packed_size, np.float32)}
    with pytest.raises(CheckpointError, match=r"expected .*'optimizer.second_moment'.*found none"):
        load_worker_state(checkpoint, 0, identity=identity(tiny_network), optimizer_state=example)


@pytest.mark.parametrize("name", ["center.safetensors", "worker-0.safetensors"])
@pytest.mark.parametrize("kept_bytes", [0, 4, 60, -1])
def test_truncated_file_is_named(writer, state, tiny_network, name, kept_bytes):
    saved = state(1)
    folder = writer().save(saved)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:kept_bytes])
    with pytest.raises(CheckpointError, match=f"{name}: cannot be read .*damaged"):
        load_both(folder, tiny_network, saved)


@pytest.mark.parametrize("name", ["center.safetensors", "worker-0.safetensors", "state.json"])
def test_missing_file_is_named(writer, state, tiny_network, name):
    saved = state(1)
    folder = writer().save(saved)
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}: is missing"):
        load_both(folder, tiny_network, saved)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null"])
def test_damaged_state_is_named(writer, state, tiny_network, content):
    folder = writer().save(state(1))
    (folder / "state.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"state.json: cannot be read"):
        load_checkpoint(folder, tiny_network)


def test_state_without_a_needed_entry_is_damaged(writer, state, tiny_network):
    folder = writer().save(state(1))
    description = json.loads((folder / "state.json").read_text())
    del description["workers"]
    (folder / "state.json").write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match=r"state.json: cannot be read .*workers"):
        load_checkpoint(folder, tiny_network)


def test_format_of_a_later_version_is_refused(writer, state, tiny_network):
    folder = writer().save(state(1))
    description = json.loads((folder / "state.json").read_text()) | {"format": 3}
    (folder / "state.json").write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match=r"has format 3, this version .* reads format 2"):
        load_checkpoint(folder, tiny_network)


def test_folder_that_cannot_be_written_is_named(writer, state, tmp_path):
    keeps = writer()
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointError, match="checkpoint-1: cannot write the checkpoint"):
        keeps.save(state(1))
