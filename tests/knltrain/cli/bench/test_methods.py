"""The words of a bench of methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


def test_a_bench_of_methods_is_shown_written_and_drawn(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    rooms = "knltrain.bench.methods"

    def measure(*arguments: object, tell: Callable[[str], None], **options: object) -> object:
        seen.append((*arguments, options))
        tell("round 1")
        return {"workers": 3}

    monkeypatch.setattr(f"{rooms}.benchmark.run_methods_benchmark", measure)
    monkeypatch.setattr(f"{rooms}.table.format_table", lambda report: f"table {report}")
    monkeypatch.setattr(f"{rooms}.picture.draw_methods", lambda *drawn: seen.append(drawn))
    path, picture = tmp_path / "report.json", tmp_path / "methods.png"
    options = ("--methods", "easgd,sync_sgd", "--workers", "3", "--epochs", "2", "--rounds", "5")
    written = ("--json", str(path), "--picture", str(picture))
    result = invoke(
        *("bench", "methods", "--data-root", "mnist", "--link-gbits", "10"),
        *("--scaling", "weak", "--link-latency-us", "5", "--no-predict", *options, *written),
    )
    assert result.stdout == "table {'workers': 3}\n"
    assert result.stderr == "round 1\n"
    link = {"emulated_link_gbits": 10.0, "emulated_latency_us": 5.0}
    given = {"epochs": 2, "accuracy": None, "threads": None, "link": link, "scaling": "weak"}
    given["predicts"] = False
    assert seen == [
        ("lenet", "mnist", ("easgd", "sync_sgd"), 3, 5, given),
        ({"workers": 3}, picture),
    ]
    assert json.loads(path.read_text()) == {"workers": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--picture", "missing/speed.png"), "there is no folder 'missing'"),
        (("--picture", "speed.jpg"), "--picture speed.jpg: expected"),
        (("--methods", "sync_eagsd"), "did you mean 'sync_easgd'"),
        (("--network", "lenett"), "did you mean 'lenet'"),
        (("--accuracy", "97"), "--accuracy 97.0: expected a share"),
        (("--link-latency-us", "5"), "--link-latency-us 5: a latency without a link;"),
    ],
)
def test_a_bench_of_methods_that_cannot_be_is_refused(
    exit_code: ExitCode, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("bench", "methods", *options) == 2
    assert message in capsys.readouterr().err
