"""How much of an exchange went on behind computing, by a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.bench.nodes.overlap import hidden_share
from knltrain.profile.spans import overlap
from knltrain.trace import Trace


def written(folder: Path, *spans: tuple[str, float, float]) -> str:
    trace = Trace(0, "worker 0")
    for name, begin, end in spans:
        trace.of(name)(begin, end)
    trace.write(folder / "trace.json")
    return (folder / "trace.json").read_text()


def test_what_lies_under_computing_is_hidden(tmp_path: Path) -> None:
    trace = written(
        tmp_path,
        ("batch", 0, 1),
        ("gradient", 1, 5),
        ("beside", 3, 4),
        ("beside", 4.5, 8),
        ("waiting", 6, 8),
        ("exchange", 6, 9),
        ("update", 5, 5.5),
    )
    # The exchange goes on from 3 to 4 and from 4.5 to 9; under computing until 5.5.
    assert hidden_share(trace) == pytest.approx(2 / 5.5)


def test_an_exchange_between_computing_is_not_hidden(tmp_path: Path) -> None:
    spans = ("gradient", 0, 1), ("exchange", 1, 2), ("gradient", 2, 3), ("exchange", 3, 4)
    assert hidden_share(written(tmp_path, *spans)) == 0


def test_a_gradient_that_is_handed_over_is_exchanged_and_not_computed(tmp_path: Path) -> None:
    """So it is in the profile, from the same spans."""
    spans = [
        ("gradient", 0.0, 5.0), ("gradient ready", 2.0, 2.5), ("gradient ready", 4.0, 5.0),
        ("beside", 2.25, 4.5), ("exchange", 5.0, 6.0), ("conv forward", 0.0, 2.0),
    ]  # fmt: skip
    of = {name: [(begin, end) for each, begin, end in spans if each == name] for name, *_ in spans}
    found = overlap(of["gradient"], of["beside"] + of["exchange"], of["gradient ready"])
    assert found == (4.0, 1.5)
    assert hidden_share(written(tmp_path, *spans)) == pytest.approx(found.hidden / found.whole)


def test_without_an_exchange_nothing_is_told(tmp_path: Path) -> None:
    assert hidden_share(written(tmp_path, ("gradient", 0, 1))) is None
