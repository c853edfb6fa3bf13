"""A training of knltrain itself, and what it says when it cannot go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knltrain.bench.nodes.ours import Ours
from knltrain.bench.nodes.training import Ground
from knltrain.bench.peer_process import PeerError

from ...hosts import hosts_or_skip


def test_run_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "cifar-quick", tmp_path, batch=8, steps=2)
        with pytest.raises(PeerError, match=r"gloo ended with 2: .*'sync_esgd'.*did you mean"):
            Ours("gloo", "sync_esgd", "gloo").train(ground, tmp_path)


@pytest.mark.slow
def test_traces_and_the_parts_of_a_step_are_found(tmp_path: Path) -> None:
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "lenet", tmp_path, batch=8, steps=6, trace_steps=2)
        found = Ours("layerwise-gloo", "layerwise_sgd", "gloo").train(ground, tmp_path)
    assert found.images_per_second > 0
    assert [_steps(trace) for trace in found.traces] == [2, 2]
    assert found.hidden_in_trace is not None
    assert 0 <= found.hidden_in_trace <= 1
    parts = found.communication_seconds, found.computing_seconds, found.step_seconds
    communication, computing, step = (part or 0.0 for part in parts)
    assert min(communication, computing) > 0
    assert communication + computing <= step * (1 + 1e-6)


def _steps(trace: str) -> int:
    return sum(each["name"] == "gradient" for each in json.loads(trace)["traceEvents"])
