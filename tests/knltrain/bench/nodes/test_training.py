"""What a training says when it cannot go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.bench.nodes.training import Ground, Ours
from knltrain.bench.peer_process import PeerError

from ...hosts import hosts_or_skip


def test_run_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "cifar-quick", tmp_path, batch=8, steps=2)
        with pytest.raises(PeerError, match=r"gloo ended with 2: .*'sync_esgd'.*did you mean"):
            Ours("gloo", "sync_esgd", "gloo").train(ground, tmp_path)
