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
    with pytest.raises(ConfigError, match="did you mean 'lenet'"):
        run_cost_model("lenett", [2], 1.0, 1.0)
