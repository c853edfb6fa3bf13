from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinity.errors import PlacementError
from affinity.exec import worker_command
from affinity.placement.plan import Arena, KernelMode, MemoryPlan, Placement
from affinity.placement.request import MemoryPolicy
from affinity.process.own import (
    PLACEMENT_VARIABLE,
    decode_placement,
    encode_placement,
    own_placement,
)

IDS = st.lists(st.integers(0, 600), max_size=6).map(tuple)
SIZES = st.none() | st.integers(0, 1 << 40)
TEXTS = st.lists(st.text(max_size=20), max_size=3).map(tuple)
ARENAS = st.builds(
    Arena, name=st.text(max_size=8), mode=st.sampled_from(get_args(KernelMode)), nodes=IDS,
    need_bytes=SIZES,
)  # fmt: skip
MEMORIES = st.builds(
    MemoryPlan,
    policy=st.sampled_from(get_args(MemoryPolicy)),
    mode=st.sampled_from(get_args(KernelMode)),
    nodes=IDS,
    order=IDS,
    hbm=st.booleans(),
    budget_bytes=st.integers(0, 1 << 40),
    need_bytes=SIZES,
    expected=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1 << 40)), max_size=3).map(tuple),
    arenas=st.lists(ARENAS, max_size=3).map(tuple),
    reasons=TEXTS,
)
PLACEMENTS = st.builds(
    Placement,
    rank=st.integers(0, 500),
    cpus=IDS,
    threads=st.integers(1, 500),
    numa_nodes=IDS,
    cores=st.lists(IDS, max_size=4).map(tuple),
    threads_per_core=st.integers(1, 4),
    communication_cpus=IDS,
    data_cpus=IDS,
    memory=MEMORIES,
    reasons=TEXTS,
)


@given(PLACEMENTS)
def test_placement_comes_back_equal(placement: Placement) -> None:
    assert decode_placement(encode_placement(placement)) == placement


def test_process_without_a_placement_has_none() -> None:
    assert own_placement({}) is None
    assert own_placement({PLACEMENT_VARIABLE: ""}) is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "7",
        "[]",
        "{}",
        '{"rank": 0}',
        '{"memory": {"arenas": 3}}',
        encode_placement(Placement(0, (0,), 1, (0,))).replace('"rank"', '"range"'),
    ],
)
def test_damaged_placement_is_named_with_the_way_out(text: str) -> None:
    with pytest.raises(PlacementError) as caught:
        own_placement({PLACEMENT_VARIABLE: text})
    assert f"{PLACEMENT_VARIABLE} holds {text[:60]!r}" in str(caught.value)
    assert "unset it" in str(caught.value)


def test_started_worker_reads_its_own_placement() -> None:
    cpu = min(os.sched_getaffinity(0))
    arena = Arena("weights", "preferred", (0,), 5)
    placement = Placement(3, (cpu,), 1, (0,), memory=MemoryPlan("split", arenas=(arena,)))
    script = (
        "from affinity.process.own import own_placement, encode_placement\n"
        "print(encode_placement(own_placement()))"
    )
    told = subprocess.run(
        worker_command([sys.executable, "-c", script], placement),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert decode_placement(told) == placement
