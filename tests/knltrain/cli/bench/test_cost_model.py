"""The words of the cost model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_the_report_is_shown_and_written(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    words = ("--network", "lenet", "--ranks", "2,4", "--gbytes-per-second", "2")
    shown = invoke("bench", "cost-model", *words, "--json", str(path))
    assert shown.output.startswith("lenet, 1.7 MB over links of 1 us and 2 GB/s")
    assert [row["ranks"] for row in json.loads(path.read_text())["predicted"]] == [2, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ranks", "two"), "'two': expected whole numbers with commas between them"),
        (("--gbytes-per-second", "0"), "0.0 is not in the range x>0"),
    ],
)
def test_bad_options_are_named(
    exit_code: Callable[..., int | str | None],
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    assert exit_code("bench", "cost-model", *options) == 2
    assert message in capsys.readouterr().err
