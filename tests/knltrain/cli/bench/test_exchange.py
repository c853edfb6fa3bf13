"""The words of a bench of exchanges."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.cli.bench.exchange import SIZES

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


def test_a_bench_of_exchanges_is_shown_written_and_drawn(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    rooms = "knltrain.bench.exchange"
    measure = f"{rooms}.benchmark.run_exchange_benchmark"
    monkeypatch.setattr(measure, lambda *arguments: seen.append(arguments) or {"workers": 3})
    monkeypatch.setattr(f"{rooms}.table.format_table", lambda report: f"table {report}")
    monkeypatch.setattr(f"{rooms}.picture.draw_bandwidths", lambda *drawn: seen.append(drawn))
    path, picture = tmp_path / "report.json", tmp_path / "speed.png"
    options = ("--sizes", "64K,4K", "--workers", "3", "--peers", "gloo", "--network", "lenet")
    options = (*options, "--workers-per-core", "3")
    written = ("--json", str(path), "--picture", str(picture))
    result = invoke("bench", "exchange", *options, *written)
    assert result.output == "table {'workers': 3}\n"
    assert seen == [([4096, 65536], 3, 7, ("gloo",), "lenet", 3), ({"workers": 3}, picture)]
    assert json.loads(path.read_text()) == {"workers": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--picture", "missing/speed.png"), "there is no folder 'missing'"),
        (("--picture", "speed.jpg"), "--picture speed.jpg: expected"),
        (("--sizes", "4T"), "'4T' is no size"),
        (("--peers", "glo"), "did you mean 'gloo'"),
        (("--workers", "1"), "--workers 1: expected at least 2"),
    ],
)
def test_a_bench_of_exchanges_that_cannot_be_is_refused(
    exit_code: ExitCode, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("bench", "exchange", *options) == 2
    assert message in capsys.readouterr().err


def test_the_default_sizes_can_be_read() -> None:
    from knltrain.bench.exchange.sizes import parse_sizes

    sizes = parse_sizes(SIZES)
    assert (sizes[0], sizes[-1]) == (4 * 2**10, 512 * 2**20)
    assert 4 * 7_000_000 in sizes
