"""The report of `knltrain bench nodes` as text."""

from __future__ import annotations

from knltrain.bench.nodes.table import format_table


def test_table_tells_rates_and_what_is_kept_of_one_host() -> None:
    bounds = {"sgemm_gflops": 350.0, "copy_gbytes_per_second": 25.0}
    alone = {"name": "one-host", "what": "sync_easgd3", "images_per_second": 40.0}
    spread = {"name": "ccl", "what": "oneCCL between hosts", "images_per_second": 38.0}
    report = {
        "machine": {"model": "a processor", "before": bounds, "after": bounds},
        "network": "googlenet",
        "nodes": 2,
        "cores_per_worker": 1,
        "link_gbits": 10.0,
        "link_gbytes_per_second": 1.2,
        "batch_per_worker": 32,
        "steps": 10,
        "rounds": 2,
        "rows": [
            {**alone, "efficiency": None, "efficiencies": [], "hidden": None},
            {**spread, "efficiency": 0.951, "efficiencies": [0.94, 0.962], "hidden": 0.873},
        ],
    }
    lines = format_table(report).splitlines()
    assert "googlenet, 2 workers with 1 core each, batch 32 per worker" in lines[0]
    assert "10 Gbit/s, of which TCP carries 9.60" in lines[0]
    assert lines[1] == (
        "a processor: sgemm and copy 350 GFLOP/s, 25.0 GB/s before; 350 GFLOP/s, 25.0 GB/s after"
    )
    assert lines[4].split() == ["one-host", "40.00"]
    assert lines[5].split() == ["ccl", "38.00", "0.951", "87%", "0.94,", "0.96"]
    assert lines[-1] == "ccl: oneCCL between hosts"
