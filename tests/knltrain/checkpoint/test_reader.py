"""Checkpoints are read whole, and of the right run, or refused with the way out."""

from __future__ import annotations

import errno
import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from knltrain.checkpoint import reader as reader_module
from knltrain.checkpoint.folders import DIGEST, digest_of_text
from knltrain.checkpoint.reader import (
    check_nodes,
    check_whole,
    load_checkpoint,
    load_worker_state,
)
from knltrain.errors import CheckpointError, DamagedCheckpoint
from knltrain.network.layers import Dense
from knltrain.network.network import Network


def test_everything_comes_back_bit_for_bit(writer, state, tiny_network, load_both):
    saved = state(7)
    checkpoint, loaded = load_both(writer().save(saved), saved)
    assert (checkpoint.step, checkpoint.seed, checkpoint.workers) == (7, 5, 1)
    assert checkpoint.method == "sync_easgd"
    assert (loaded.step, loaded.seconds) == (7, saved.seconds)
    np.testing.assert_array_equal(loaded.center, saved.center)
    np.testing.assert_array_equal(loaded.local, saved.local)
    np.testing.assert_array_equal(loaded.optimizer["velocity"], saved.optimizer["velocity"])


def test_worker_s_own_step_comes_back_beside_that_of_the_run(writer, state, load_both):
    saved = state(7)
    folder = writer().save(saved, run_step=9)
    checkpoint, loaded = load_both(folder, saved)
    assert (folder.name, checkpoint.step, loaded.step) == ("checkpoint-9", 9, 7)


def test_worker_s_file_that_does_not_tell_its_step_is_damaged(writer, state, load_both):
    saved = state(7)
    path = writer().save(saved) / "worker-0.safetensors"
    save_file(load_file(path), path)
    with pytest.raises(DamagedCheckpoint, match=r"worker-0.safetensors: .*damaged"):
        load_both(path.parent, saved)


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


def test_other_number_of_workers_can_be_evaluated_but_not_resumed(
    writer, state, tiny_network, load_both
):
    saved = state(1)
    folder = writer().save(saved)
    load_checkpoint(folder, tiny_network)
    with pytest.raises(
        CheckpointError, match=r"nodes x workers = 1, but nodes x workers = 2 was asked for"
    ):
        load_both(folder, saved, workers=2)


def test_other_method_cannot_be_resumed(writer, state, tiny_network, load_both):
    saved = state(1)
    with pytest.raises(CheckpointError, match=r"exchange.method = 'sync_easgd'"):
        load_both(writer().save(saved), saved, method="sync_sgd")


def test_other_seed_cannot_be_resumed(writer, state, tiny_network, load_both):
    saved = state(1)
    with pytest.raises(CheckpointError, match=r"seed = 5, but seed = 6 was asked for"):
        load_both(writer().save(saved), saved, seed=6)


def test_other_number_of_nodes_cannot_be_resumed_where_exchanges_left_something(
    writer, state, tiny_network
):
    checkpoint = load_checkpoint(writer().save(state(1)), tiny_network)
    check_nodes(checkpoint, 2, 1)
    residual = {"residual": np.ones(tiny_network.packed_size, np.float32)}
    kept = replace(state(2), exchange=residual)
    checkpoint = load_checkpoint(writer().save(kept), tiny_network)
    check_nodes(checkpoint, 2, 2)
    expected = (
        r"nodes = 1: in .*checkpoint-2 worker 0 keeps residual of its exchanges between 2 nodes: "
        "resume with nodes = 2, or"
    )
    with pytest.raises(CheckpointError, match=expected):
        check_nodes(checkpoint, 2, 1)


def test_other_optimizer_cannot_be_resumed(writer, state, tiny_network, identity):
    checkpoint = load_checkpoint(writer().save(state(1)), tiny_network)
    example = {"second_moment": np.zeros(tiny_network.packed_size, np.float32)}
    with pytest.raises(CheckpointError, match=r"expected .*'optimizer.second_moment'.*found none"):
        load_worker_state(checkpoint, 0, identity=identity(tiny_network), optimizer_state=example)


def test_counts_come_back_as_the_integers_that_they_are(writer, state, load_both):
    saved = state(1)
    count = np.array([2**53 + 1], np.int64)
    saved = replace(saved, optimizer={**saved.optimizer, "steps": count})
    _, loaded = load_both(writer().save(saved), saved)
    assert loaded.optimizer["steps"].dtype == np.int64
    np.testing.assert_array_equal(loaded.optimizer["steps"], count)


def test_optimizer_s_state_of_another_type_is_refused(writer, state, load_both):
    saved = state(1)
    folder = writer().save(saved)
    example = {name: values.astype(np.int64) for name, values in saved.optimizer.items()}
    with pytest.raises(CheckpointError, match=r"expected tensor .*velocity. int64.*found float32"):
        load_both(folder, replace(saved, optimizer=example))


@pytest.mark.parametrize("name", ["center.safetensors", "worker-0.safetensors"])
@pytest.mark.parametrize("kept_bytes", [0, 4, 60, -1])
def test_truncated_file_is_named(writer, state, tiny_network, name, kept_bytes, load_both):
    saved = state(1)
    folder = writer().save(saved)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:kept_bytes])
    with pytest.raises(CheckpointError, match=f"{name}: cannot be read .*damaged"):
        load_both(folder, saved)


@pytest.mark.parametrize("name", ["center.safetensors", "worker-0.safetensors", "state.json"])
def test_missing_file_is_named(writer, state, tiny_network, name, load_both):
    saved = state(1)
    folder = writer().save(saved)
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}: is missing"):
        load_both(folder, saved)


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
    description = json.loads((folder / "state.json").read_text()) | {"format": 5}
    description[DIGEST] = digest_of_text(description)
    (folder / "state.json").write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match=r"has format 5, this version .* formats 3 and 4"):
        load_checkpoint(folder, tiny_network)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "3"}, "format = '3'"),
        ({"format": True}, "format = 'True'"),
        ({"format": None}, "format = 'None'"),
        ({"step": 2}, "step = 2 in a folder that is called checkpoint-1"),
    ],
    ids=str,
)
def test_without_digests_what_cannot_be_is_damage(writer, state, tiny_network, change, said):
    folder = writer().save(state(1))
    as_format_3(folder)
    description = json.loads((folder / "state.json").read_text()) | change
    (folder / "state.json").write_text(json.dumps(description))
    with pytest.raises(DamagedCheckpoint, match=rf"state.json: cannot be read \({said}\)"):
        load_checkpoint(folder, tiny_network)


def test_format_without_digests_is_read_and_tells_nothing_of_its_data(
    writer, state, tiny_network, load_both
):
    saved = state(1)
    folder = writer().save(saved)
    as_format_3(folder)
    checkpoint, loaded = load_both(folder, saved)
    assert (checkpoint.format, checkpoint.data) == (3, None)
    np.testing.assert_array_equal(loaded.local, saved.local)
    check_whole(folder)


@pytest.mark.parametrize("name", ["center.safetensors", "worker-0.safetensors", "state.json"])
def test_any_flipped_bit_is_found_or_changes_nothing(writer, state, name, load_both):
    """Of every byte one: some are padding, and some break the file before its digest is looked at.

    A network's name or a format may come out as another one, which is refused as such.
    """
    saved = state(7)
    path = writer().save(saved) / name
    content = path.read_bytes()
    found = 0
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 7
        path.write_bytes(flipped)
        try:
            check_whole(path.parent)
        except CheckpointError:
            found += 1
        else:
            _, loaded = load_both(path.parent, saved)
            np.testing.assert_array_equal(loaded.center, saved.center)
            np.testing.assert_array_equal(loaded.local, saved.local)
            assert loaded.step == 7
    assert found > 0.9 * len(content)


def test_file_that_may_not_be_read_is_not_called_damaged(writer, state, monkeypatch, tiny_network):
    folder = writer().save(state(1))

    def refuse(_path, framework):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(reader_module, "safe_open", refuse)
    with pytest.raises(CheckpointError, match=r"center.*: cannot be read \(Permission") as raised:
        load_checkpoint(folder, tiny_network)
    assert not isinstance(raised.value, DamagedCheckpoint)


def as_format_3(folder):
    """Make a checkpoint what the version before wrote."""
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="numpy") as file:
            metadata = {key: value for key, value in file.metadata().items() if key != DIGEST}
        save_file(load_file(path), path, metadata=metadata)
    description = json.loads((folder / "state.json").read_text()) | {"format": 3}
    del description[DIGEST], description["data"]
    (folder / "state.json").write_text(json.dumps(description))
