"""Which folders count as checkpoints."""

from __future__ import annotations

from knltrain.checkpoint.folders import by_step, latest_checkpoint


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
