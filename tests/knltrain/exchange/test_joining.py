from __future__ import annotations

import os
from dataclasses import replace

import pytest

from knltrain.errors import SegmentError
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.joining import join
from knltrain.exchange.method import Method
from knltrain.exchange.node_memory import NodeMemory
from vectorized_ops.reference.elastic import synchronous_average

PLAIN = Method("local_sgd", ModelAveraging(4, synchronous_average), "parameters", after="step")
GROUPED = replace(PLAIN, inside=PLAIN, group_size=2)


def test_a_rank_is_taken_once() -> None:
    memory = NodeMemory(10, 4, GROUPED, "memfd")
    team = join([os.dup(fd) for fd in memory.fds_of(2)], 2, 20)
    with pytest.raises(SegmentError, match="already runs"):
        join([os.dup(fd) for fd in memory.fds_of(2)], 2, 20)
    team.close()
    memory.close()
