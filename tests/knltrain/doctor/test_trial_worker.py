from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from affinity.cpulist import format_cpulist
from knltrain.doctor import trial_worker
from knltrain.errors import PeerLost
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from vectorized_ops.reference import elastic


@pytest.fixture
def segment() -> Iterator[Segment]:
    segment = Segment.create(1000, workers=1)
    yield segment
    segment.close()


@pytest.fixture
def cpus() -> str:
    return format_cpulist(os.sched_getaffinity(0))


def test_right_exchange_leaves_nothing_to_complain_about(segment: Segment, cpus: str) -> None:
    assert trial_worker.take_part(0, os.dup(segment.fd), cpus) == ""


def test_exchange_that_moves_nothing_is_noticed_in_local_and_center(
    segment: Segment, cpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "synchronous_elastic_update", lambda *_: None)
    assert trial_worker.take_part(0, os.dup(segment.fd), cpus) == (
        "1000 of 1000 values of the local are not 2.75, "
        "1000 of 1000 values of the center are not 2.25"
    )


def test_wrong_cpus_are_told_and_the_others_are_not_kept_waiting(segment: Segment) -> None:
    reason = trial_worker.take_part(0, segment.fd, "99999")
    assert reason.startswith("runs on cpus ")
    assert reason.endswith(" instead of 99999")
    with pytest.raises(PeerLost):
        NodeShared(segment, 0).check()
