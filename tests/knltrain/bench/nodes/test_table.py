"""The report of `knltrain bench nodes` as text."""

from __future__ import annotations

from knltrain.bench.nodes.table import format_table

NONE = dict.fromkeys(
    (
        "efficiency",
        "hidden",
        "computing_seconds",
        "communication_seconds",
        "communication_share",
    )
)


def test_table_tells_rates_and_what_is_kept_of_one_host() -> None:
    bounds = {"sgemm_gflops": 350.0, "copy_gbytes_per_second": 25.0}
    alone = {"name": "one-host", "what": "sync_easgd3", "images_per_second": 40.0}
    spread = {"name": "ccl", "what": "oneCCL between hosts", "images_per_second": 38.0}
    parts = {
        "hidden": 0.873,
        "computing_seconds": 0.75,
        "communication_seconds": 0.0421,
        "communication_share": 0.0531,
    }
    report = {
        "machine": {"model": "a processor", "before": bounds, "after": bounds},
        "network": "googlenet",
        "nodes": 2,
        "cores_per_worker": 1,
        "workers_per_core": 2,
        "link_gbits": 10.0,
        "link_latency_us": 50.0,
        "link_gbytes_per_second": 1.2,
        "batch_per_worker": 32,
        "steps": 10,
        "rounds": 2,
        "rows": [
            {**NONE, **alone, "efficiencies": []},
            {**NONE, **spread, **parts, "efficiency": 0.951, "efficiencies": [0.94, 0.962]},
        ],
        "star_by_seasgd": {"median": 5.3, "of_rounds": [5.0, 5.6]},
    }
    lines = format_table(report).splitlines()
    assert "googlenet, 2 workers with 1 core each, 2 on the same, batch 32 per worker" in lines[0]
    assert "10 Gbit/s and 50 µs later, of which TCP carries 9.60" in lines[0]
    assert lines[1] == (
        "a processor: sgemm and copy 350 GFLOP/s, 25.0 GB/s before; 350 GFLOP/s, 25.0 GB/s after"
    )
    assert lines[4].split() == ["one-host", "40.00"]
    parts_of_step = ["750.0", "ms", "42.1", "ms,", "5.3%"]
    shares = ["0.951", "87%"]
    assert lines[5].split() == ["ccl", "38.00", *shares, *parts_of_step, "0.94,", "0.96"]
    assert lines[7].startswith("communication of a step, waiting included: star's is 5.30 times")
    assert lines[7].endswith("seasgd (5.00, 5.60)")
    assert lines[-1] == "ccl: oneCCL between hosts"
