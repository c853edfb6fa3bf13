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
        (("--gbytes-per-second", "inf"), "inf is no finite number"),
        (("--latency-us", "nan"), "nan is no finite number"),
        (("--computing-ms", "nan", "--methods", "all"), "nan is no finite number"),
        (("--ranks", "2,2"), "2 is there twice: expected it once"),
        (("--methods", "seasgd,seasgd"), "seasgd is there twice: expected it once"),
        (("--all-reduce", "nosuch"), "--all-reduce without --methods: expected both"),
        (("--servers", "2"), "--servers without --methods: expected both"),
        (("--computing-ms", "5"), "--computing-ms without --methods: expected both"),
        (("--servers", "99", "--ranks", "2", "--methods", "all"), "expected at most the most"),
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
