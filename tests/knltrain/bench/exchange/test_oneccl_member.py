"""oneCCL as a contestant; runs where it is installed."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from knltrain.bench.exchange.contestants import started
from knltrain.bench.exchange.crew import assembled
from knltrain.communication import oneccl

CPUS = sorted(os.sched_getaffinity(0))


@pytest.mark.slow
@pytest.mark.skipif(oneccl.installed() is None, reason="oneCCL is not installed")
@pytest.mark.parametrize("name", ["oneccl", "oneccl-shm", "ccl"])
def test_two_ranks_reduce_and_share_memory_without_a_name(name):
    with ExitStack() as stack:
        processes = started(name, [CPUS[:1], CPUS[-1:]])
        crew = assembled(stack, name, processes)
        names = {file.name.partition(":")[0] for file in Path("/dev/shm").iterdir()}
        assert not names & {str(process._process.pid) for process in processes}
        crew.hold("a", [100, 700_000])
        assert 0 < crew.seconds("a", "all_reduce", 3) < 10
        assert ("torch" if name == "ccl" else "oneCCL") in crew.version
