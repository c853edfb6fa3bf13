"""A run goes on from the newest whole checkpoint, and damaged ones are kept for a look at them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from knltrain.checkpoint.newest import newest_whole, set_aside
from knltrain.errors import CheckpointError, DamagedCheckpoint


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_run_without_checkpoints_has_none(tmp_path):
    assert newest_whole(tmp_path) == (None, [])


def test_whole_one_is_taken_without_a_word(writer, state, tmp_path):
    for step in (3, 5):
        writer().save(state(step))
    assert newest_whole(tmp_path) == (tmp_path / "checkpoint-5", [])


@pytest.mark.parametrize("name", ["center.safetensors", "worker-0.safetensors"])
def test_damaged_one_is_renamed_and_named_and_the_one_before_it_taken(
    writer, state, tmp_path, name
):
    for step in (3, 5):
        writer().save(state(step))
    flip(tmp_path / "checkpoint-5" / name)
    folder, damaged = newest_whole(tmp_path)
    assert folder == tmp_path / "checkpoint-3"
    assert names_in(tmp_path) == ["checkpoint-3", "checkpoint-5"]
    (note,) = set_aside(damaged, folder)
    assert f"checkpoint-5/{name}" in note
    assert "now called checkpoint-5.damaged; the newest whole one is checkpoint-3" in note
    assert names_in(tmp_path) == ["checkpoint-3", "checkpoint-5.damaged"]
    assert name in names_in(tmp_path / "checkpoint-5.damaged")


def test_missing_worker_is_damage_and_several_may_be_damaged(writer, state, tmp_path):
    for step in (3, 5, 7):
        writer().save(state(step))
    (tmp_path / "checkpoint-5.damaged").mkdir()  # of an earlier time
    (tmp_path / "checkpoint-7" / "worker-0.safetensors").unlink()
    (tmp_path / "checkpoint-5" / "state.json").write_text("{}")
    folder, damaged = newest_whole(tmp_path)
    assert folder == tmp_path / "checkpoint-3"
    assert len(set_aside(damaged, folder)) == 2
    assert names_in(tmp_path) == [
        "checkpoint-3",
        "checkpoint-5.damaged",
        "checkpoint-5.damaged-2",
        "checkpoint-7.damaged",
    ]


@pytest.mark.parametrize(
    "put", [Path.touch, lambda path: path.symlink_to("nowhere")], ids=["file", "link"]
)
def test_what_is_no_folder_counts_as_damaged(writer, state, tmp_path, put):
    writer().save(state(3))
    for _ in range(2):
        put(tmp_path / "checkpoint-5")
        folder, damaged = newest_whole(tmp_path)
        assert folder == tmp_path / "checkpoint-3"
        (note,) = set_aside(damaged, folder)
        assert "checkpoint-5: cannot be read (it is no folder)" in note
    aside = ["checkpoint-5.damaged", "checkpoint-5.damaged-2"]
    assert names_in(tmp_path) == ["checkpoint-3", *aside]
    writer().save(state(5))


def test_where_none_is_whole_all_are_named_and_none_is_touched(writer, state, tmp_path):
    for step in (3, 5):
        flip(writer().save(state(step)) / "center.safetensors")
    with pytest.raises(DamagedCheckpoint, match=r"checkpoint-5/.*checkpoint-3/.*start a new run"):
        newest_whole(tmp_path)
    assert names_in(tmp_path) == ["checkpoint-3", "checkpoint-5"]


def test_damaged_one_that_cannot_be_renamed_is_told(writer, state, tmp_path, monkeypatch):
    for step in (3, 5):
        writer().save(state(step))
    flip(tmp_path / "checkpoint-5" / "center.safetensors")

    def refuse(self, target):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refuse)
    folder, damaged = newest_whole(tmp_path)
    with pytest.raises(CheckpointError, match=r"checkpoint-5: .*cannot be renamed \(Read-only"):
        set_aside(damaged, folder)
