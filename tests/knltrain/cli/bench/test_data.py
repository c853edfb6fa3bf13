"""The words of a bench of the pass over pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_of_pictures_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, ...]] = []

    def measure(*arguments: object) -> dict[str, object]:
        seen.append(arguments)
        return {"images": 8}

    monkeypatch.setattr("knltrain.bench.data.benchmark.run_data_benchmark", measure)
    more: list[tuple[object, ...]] = []
    rows = [{"source": "jpeg", "pictures_per_second": 7.0}]
    for name, answer in (("sources", rows), ("training", {"share": 1})):
        target = f"knltrain.bench.data.{name}.run_{name}_benchmark"
        monkeypatch.setattr(target, lambda *given, answer=answer: more.append(given) or answer)
    target = "knltrain.bench.data.first_batch.run_first_batch_benchmark"
    monkeypatch.setattr(target, lambda *given: more.append(given) or {"files": given[0]})
    table = "knltrain.bench.data.report.format_table"
    monkeypatch.setattr(table, lambda report: f"table of {report['images']}")
    path = tmp_path / "report.json"
    options = ("--recipes", "none,vgg", "--channels", "1", "--images", "8")
    result = invoke("bench", "data", *options, "--json", str(path))
    assert result.output == "table of 8\n"
    assert seen == [(("none", "vgg"), 256, 224, 1, 8, 7, "numba")]
    names = ("packed", "lmdb", "lmdb-first", "jpeg", "folder")
    assert more == [(names, 256, 224, 1, 7, "numba")]
    assert json.loads(path.read_text()) == {"images": 8, "sources": rows}
    more.clear()
    invoke("bench", "data", "--sources", "lmdb", "--network", "cifar-quick", "--json", str(path))
    assert more == [
        (("lmdb", "jpeg"), 256, 224, 3, 7, "numba"),
        ("cifar-quick", 256, 8, 8, 2, 7.0),
    ]
    assert json.loads(path.read_text())["training"] == {"share": 1}
    more.clear()
    invoke("bench", "data", "--sources", "lmdb", "--files", "60000", "--json", str(path))
    assert more[1:] == [(60_000, 3)]
    assert json.loads(path.read_text())["first_batch"] == {"files": 60_000}


@pytest.mark.parametrize("option", ["--batch", "--steps"])
def test_options_of_a_training_need_a_network(
    exit_code: Callable[..., int | str | None], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert exit_code("bench", "data", option, "4") == 2
    assert f"{option} without --network: expected both" in capsys.readouterr().err
