"""DDP as a training: what is said when a rank cannot begin (`test_benchmark` has it well)."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.bench.nodes.ddp import Ddp
from knltrain.bench.nodes.training import Ground
from knltrain.bench.peer_process import PeerError

from ...hosts import hosts_or_skip


@pytest.mark.slow
def test_ranks_without_a_job_are_told_with_their_words(tmp_path: Path) -> None:
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "lenet", tmp_path / "none", batch=8, steps=2)
        with pytest.raises(PeerError, match=r"'ddp-gloo' ended .*(?s:.)*job\.json"):
            Ddp("gloo", spread=True).train(ground, tmp_path)
