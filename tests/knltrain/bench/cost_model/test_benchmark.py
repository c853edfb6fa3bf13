"""The report of the cost model, and what the docs have of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.bench.cost_model.benchmark import format_report, run_cost_model
from knltrain.errors import ConfigError

DOCS = Path(__file__).parents[4] / "docs/cost_model.md"


def test_the_docs_have_the_figures_of_the_report() -> None:
    report = run_cost_model("googlenet", [2, 8, 64], 1.0, 8.0)
    text = DOCS.read_text(encoding="utf-8")
    for row in report["predicted"]:
        seconds = [row["seconds"][name] for name in ("one after another", "tree", "ring")]
        cells = (str(row["ranks"]), *(f"{1e3 * each:.2f}" for each in seconds))
        assert f"| {' | '.join(cells)} |" in text
    median, most = (100 * report[name] for name in ("median_error", "largest_error"))
    assert f"{median:.1f} % in the median, {most:.1f} % at most" in text
    assert f"{100 * report['largest_error_of_efficiency']:.1f} points of efficiency" in text
    assert f"a tree of {report['tree_gbytes_per_second']:.2f} GB/s" in text


def test_all_parts_are_told() -> None:
    told = format_report(run_cost_model("lenet", [2, 4], 0.5, 1.25)).splitlines()
    assert told[0] == "lenet, 1.7 MB over links of 0.5 us and 1.25 GB/s, predicted milliseconds"
    assert told[3].split()[0] == "2"
    rows = [line.split() for line in told if line.startswith(("vgg-19 ", "googlenet "))]
    assert len(rows) == 12


def test_what_cannot_be_predicted_is_refused() -> None:
    with pytest.raises(ConfigError, match="--ranks 2,0: expected 1 or more"):
        run_cost_model("lenet", [2, 0], 1.0, 1.0)
    with pytest.raises(ConfigError, match="--servers 3: expected at most the most --ranks, 2"):
        run_cost_model("lenet", [1, 2], 1.0, 1.0, servers=3)
    with pytest.raises(ConfigError, match=r"beta=inf.*: expected finite numbers of seconds"):
        run_cost_model("lenet", [2], 1.0, 1e-320)
    with pytest.raises(ConfigError, match="did you mean 'lenet'"):
        run_cost_model("lenett", [2], 1.0, 1.0)


def test_the_docs_have_steps_of_methods() -> None:
    text = DOCS.read_text(encoding="utf-8")
    names = ("sync_easgd1", "sync_easgd", "sync_easgd3", "original_easgd", "seasgd", "caffe_mpi")
    report = run_cost_model("googlenet", [2, 8, 64], 1.0, 8.0, methods=names, servers=1)
    for name in names:
        rows = [row for row in report["steps"] if row["method"] == name]
        cells = (f"`{name}`", *(f"{1e3 * row['step_seconds']:.2f}" for row in rows))
        assert f"| {' | '.join(cells)} |" in text


def test_steps_have_a_line_for_each_method_and_a_column_for_each_number_of_ranks() -> None:
    report = run_cost_model(
        "lenet", [1, 2], 1.0, 1.0, methods=["sync_sgd", "asgd"], computing_ms=50.0
    )
    told = format_report(report)
    assert "a step of each method with 50 ms of computing, all-reduces by ring, servers" in told
    lines = [line.split() for line in told.splitlines()]
    assert ["asgd", "none", "50.00"] in lines
    assert ["sync_sgd", "all-reduce", "50.00", "51.73"] in lines
    assert "asgd has none: exchange.method = 'asgd' with 2 workers" in told
    assert "a step of each method" not in format_report(run_cost_model("lenet", [2], 1.0, 1.0))


def test_fewer_ranks_than_servers_are_told() -> None:
    given = {"methods": ["seasgd"], "servers": 4}
    told = format_report(run_cost_model("lenet", [2, 4], 1.0, 1.0, **given))
    assert "servers of centers: 4, or all of fewer; predicted" in told
    assert "centers: 4; " in format_report(run_cost_model("lenet", [4], 1.0, 1.0, **given))
