"""DDP as a training: what is said when a rank cannot begin (`test_benchmark` has it well)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from knltrain.bench.nodes import ddp as ddp_module
from knltrain.bench.nodes.ddp import Ddp
from knltrain.bench.nodes.training import Ground
from knltrain.bench.step.peer_process import PeerError

from ...hosts import hosts_or_skip


@pytest.mark.slow
def test_ranks_without_a_job_are_told_with_their_words(tmp_path: Path) -> None:
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "lenet", tmp_path / "none", batch=8, steps=2)
        with pytest.raises(PeerError, match=r"'ddp-gloo' ended .*(?s:.)*job\.json"):
            Ddp("gloo", spread=True).train(ground, tmp_path)


def test_steps_in_which_buckets_are_made_are_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def answers(ranks: Sequence[Any], steps: int, _longest_seconds: float) -> list[dict[str, Any]]:
        asked.append(steps)
        return [{"seconds": 1.0}, {"seconds": 2.0}][: len(ranks)]

    rank = SimpleNamespace(wait_ready=lambda: None)
    monkeypatch.setattr(Ddp, "_rank", lambda *_: nullcontext(rank))
    monkeypatch.setattr(ddp_module, "answers_of", answers)
    hosts: Any = None
    ground = Ground(hosts, [[0], [0]], "lenet", tmp_path, batch=8, steps=5)
    found = Ddp("gloo", spread=True).train(ground, tmp_path)
    assert asked == [2, 5]
    assert found.images_per_second == 2 * 8 * 5 / 2.0
