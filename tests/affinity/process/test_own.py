from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinity.errors import PlacementError
from affinity.exec import worker_command
from affinity.placement.plan import Arena, KernelMode, MemoryPlan, MemoryPolicy, Placement
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
def test_placement_comes_back_equal_but_for_its_reasons(placement: Placement) -> None:
    memory = replace(placement.memory, reasons=())
    assert decode_placement(encode_placement(placement)) == replace(
        placement, memory=memory, reasons=()
    )


def test_reasons_are_not_inherited_by_all_that_a_worker_starts() -> None:
    memory = MemoryPlan(reasons=("long " * 1000,))
    placement = Placement(0, (0, 1), 2, (0,), memory=memory, reasons=("prose " * 1000,))
    assert len(encode_placement(placement)) < 500


def test_facts_that_only_a_later_version_knows_are_left_out() -> None:
    placement = Placement(1, (0,), 1, (0,), memory=MemoryPlan(arenas=(Arena("a", "bind", (0,)),)))
    facts = json.loads(encode_placement(placement))
    for part in (facts, facts["memory"], facts["memory"]["arenas"][0]):
        part["colour"] = "green"
    assert decode_placement(json.dumps(facts)) == placement


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
