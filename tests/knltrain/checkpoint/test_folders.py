"""Which folders count as checkpoints."""

from __future__ import annotations

import numpy as np

from knltrain.checkpoint.folders import (
    DIGEST,
    by_step,
    digest_of_tensors,
    digest_of_text,
    latest_checkpoint,
)


def test_run_without_checkpoints_has_no_latest(tmp_path):
    (tmp_path / "checkpoint-notes").mkdir()
    (tmp_path / ".checkpoint-3.partial").mkdir()
    assert latest_checkpoint(tmp_path) is None


def test_checkpoints_are_in_the_order_of_their_steps_not_of_their_names(tmp_path):
    for step in (100, 9, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    (tmp_path / "checkpoint-200.diverged").mkdir()
    assert [step for step, _ in by_step(tmp_path)] == [9, 10, 100]
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-100"


TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], np.int64)}


def test_order_and_layout_and_an_own_digest_do_not_matter():
    metadata = {"step": "3", "seconds": "{}"}
    expected = digest_of_tensors(TENSORS.items(), metadata)
    turned = [("b", TENSORS["b"]), ("a", np.asfortranarray(TENSORS["a"]))]
    assert digest_of_tensors(turned, {**metadata, DIGEST: "x"}) == expected
    assert digest_of_text({"a": 1, "b": 2}) == digest_of_text({"b": 2, "a": 1, DIGEST: "y"})


def test_names_types_shapes_values_and_metadata_matter():
    values = TENSORS["a"]
    others = (
        [("c", values)],
        [("a", values.view(np.int32))],
        [("a", values.reshape(3, 2))],
        [("a", values + 1)],
        [("a", values), ("b", values)],
    )
    found = {digest_of_tensors(each, {}) for each in ([("a", values)], *others)}
    found.add(digest_of_tensors([("a", values)], {"step": "3"}))
    assert len(found) == 7
