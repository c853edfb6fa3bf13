"""Real ranks on cores of their own, few steps."""

from __future__ import annotations

import os
from typing import Any

import pytest

from knltrain.bench.layers.benchmark import format_table, run_layers_benchmark
from knltrain.distributed_ops import Row
from knltrain.errors import ConfigError

needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")


@pytest.fixture(scope="module")
def report() -> Any:
    return run_layers_benchmark("lenet", 2, 4, 2, 2, "reference")


@pytest.mark.slow
@needs_two_cpus
def test_every_rank_tells_of_all_layers(report: dict[str, Any]) -> None:
    assert len(report["ranks"]) == 2
    for answer in report["ranks"]:
        rows = [Row(**row) for row in answer["rows"]]
        assert {row.layer for row in rows} == {"conv1", "conv2", "ip1", "ip2"}
        sent = [row for row in rows if row.direction == "backward_weights"]
        assert len(sent) == 4
        assert all(row.wire_bytes > 0 and row.issued_seconds > 0 for row in sent)
        assert all(row.exposed_seconds >= 0 for row in sent)
        assert all(row.calls == 2 for row in rows)


@pytest.mark.slow
@needs_two_cpus
def test_table_has_a_line_for_each_row_and_what_they_come_to(report: dict[str, Any]) -> None:
    lines = format_table(report).splitlines()
    assert "lenet, batch 4 per rank, 2 ranks with" in lines[0]
    assert "means of 2 steps" in lines[0]
    assert "GFLOP/s" in lines[1]
    assert len([line for line in lines if line.startswith(("conv", "ip"))]) == 15
    assert lines[-1].startswith("all layers: computing")


@pytest.mark.parametrize(
    ("network", "workers", "implementation", "message"),
    [
        ("lenett", 2, "numba", "did you mean 'lenet'"),
        ("lenet", 1, "numba", "--workers 1: expected at least 2"),
        ("lenet", 2, "nunba", "did you mean 'numba'"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    network: str, workers: int, implementation: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run_layers_benchmark(network, workers, 4, 1, 2, implementation)
