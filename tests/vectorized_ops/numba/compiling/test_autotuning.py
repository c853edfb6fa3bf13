"""Choices by measurement, remembered on disk."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import pytest

from vectorized_ops.numba.compiling import autotuning
from vectorized_ops.numba.compiling.autotuning import Choice, chosen
from vectorized_ops.numba.compiling.journal import Tuning


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(autotuning, "CACHE_FOLDER", tmp_path)
    return tmp_path / "choices"


def sleeping(seconds: float, calls: list[float]) -> Callable[[], None]:
    def run() -> None:
        calls.append(seconds)
        time.sleep(seconds)

    return run


def must_not_run() -> None:
    raise AssertionError("measured again")


def test_the_fastest_is_chosen_and_its_rivals_are_told() -> None:
    calls: list[float] = []
    found = chosen("q", {"plain": sleeping(0.02, calls), "quick": sleeping(0.001, calls)})
    assert found.name == "quick"
    assert found.seconds["plain"] > found.seconds["quick"] > 0
    assert 0.02 in calls


def test_who_is_not_clearly_beaten_is_measured_in_all_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds, measured = {"plain": 1.0, "quick": 0.99, "slow": autotuning.BEATEN}, list[str]()

    def mean_seconds(run: Callable[[], str], _: float) -> float:
        measured.append(run())
        return seconds[measured[-1]]

    monkeypatch.setattr(autotuning, "mean_seconds", mean_seconds)
    chosen("q", {name: partial(str, name) for name in seconds})
    rounds = {name: measured.count(name) for name in seconds}
    assert rounds == {"plain": autotuning.ROUNDS, "quick": autotuning.ROUNDS, "slow": 1}


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> Tuning:
    """What the process may spend on choices, until the test's end."""
    fresh = Tuning()
    monkeypatch.setattr(autotuning, "TUNING", fresh)
    return fresh


def test_the_hopeless_are_not_tried_unless_all_is_to_be_measured(tuning: Tuning) -> None:
    expected = {"plain": 1.0, "quick": 0.7, "slow": 1.5}
    candidates = dict.fromkeys(("plain", "quick"), lambda: None)
    found = chosen("q", {**candidates, "slow": must_not_run}, {**expected, "quick": 0.8})
    assert set(found.seconds) == {"plain", "quick"}
    alone = {"plain": must_not_run, "quick": must_not_run, "slow": must_not_run}
    assert chosen("q", alone, expected) == Choice("quick", {})
    tuning.mode = "full"
    assert set(chosen("r", {**candidates, "slow": lambda: None}, expected).seconds) == set(expected)


@pytest.mark.parametrize("limits", [{"mode": "off"}, {"seconds": 1.0, "spent": 1.5}])
def test_what_may_not_be_measured_is_chosen_by_what_it_is_expected_to_take(
    limits: dict[str, Any], tuning: Tuning, folder: Path
) -> None:
    for name, value in limits.items():
        setattr(tuning, name, value)
    candidates = {"plain": must_not_run, "quick": must_not_run}
    assert chosen("q", candidates, {"plain": 1.0, "quick": 0.9}) == Choice("quick", {})
    assert chosen("q", candidates) == Choice("plain", {})
    assert not folder.exists()
    tuning.mode = "full"
    assert chosen("q", {"plain": lambda: None, "quick": lambda: None}).seconds


def test_what_was_measured_does_not_count_where_choices_are_fixed(
    tuning: Tuning, folder: Path
) -> None:
    expected = {"plain": 1.0, "quick": 0.9}
    slow = {"plain": lambda: None, "quick": sleeping(0.01, [])}
    assert chosen("q", slow, expected).name == "plain"
    assert any(folder.iterdir())
    tuning.mode = "fixed"
    assert chosen("q", dict.fromkeys(expected, must_not_run), expected) == Choice("quick", {})


def test_what_is_known_of_the_processor_is_measured_only_where_all_is_to_be(
    tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vax.json").write_text('{"q": "quick", "r": "gone"}')
    monkeypatch.setattr(autotuning, "SHIPPED", tmp_path)
    monkeypatch.setattr(autotuning, "packaged_processor", lambda: "vax")
    monkeypatch.setattr(autotuning, "kernel_packages", lambda _: ())
    monkeypatch.setattr(autotuning, "_packaged", autotuning._packaged.__wrapped__)
    untried = {"plain": must_not_run, "quick": must_not_run}
    for tuning.mode in ("fixed", "auto"):
        assert chosen("q", untried, made_by="sources") == Choice("quick", {})
    tried = {"plain": sleeping(0.01, []), "quick": lambda: None}
    assert chosen("r", tried).seconds, "it is no candidate any more"
    tuning.mode = "full"
    assert chosen("q", tried).seconds


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '"\\ud800"'])
def test_answers_that_cannot_be_read_are_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "choices.json").write_text(text)
    assert autotuning.choices_in(tmp_path / "choices.json") == {}
    assert autotuning.choices_in(tmp_path / "none.json") == {}


def test_what_measuring_has_taken_is_told(tuning: Tuning) -> None:
    chosen("q", {"plain": sleeping(0.05, []), "quick": lambda: None})
    assert tuning.measured == 1
    assert tuning.spent > 0.1
    assert tuning.told() == f"tuning: 1 choices measured in {tuning.spent:.1f} of 60 s at most"


def test_what_is_short_is_repeated_until_its_time_can_be_measured() -> None:
    calls: list[float] = []
    found = chosen(
        "q", dict.fromkeys(("plain", "twin"), sleeping(autotuning.LEAST_SECONDS / 8, calls))
    )
    assert len(calls) > 2 * 2, "one more than an unmeasured run and a measured one"
    assert found.seconds["plain"] >= autotuning.LEAST_SECONDS / 8


def test_the_plain_one_stays_unless_another_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {
        "plain": 1.0,
        "twin": 0.999 / autotuning.MARGIN + 2e-3,
        "quick": 0.999 / autotuning.MARGIN,
    }
    monkeypatch.setattr(autotuning, "mean_seconds", lambda run, _: seconds[run()])
    candidates = {name: partial(str, name) for name in seconds}
    assert chosen("q", candidates).name == "quick"
    del candidates["quick"]
    assert chosen("q", candidates).name == "plain"


def test_an_answer_is_measured_once() -> None:
    first = chosen("q", {"plain": sleeping(0.01, []), "quick": sleeping(0.001, [])})
    assert chosen("q", {"plain": must_not_run, "quick": must_not_run}) == first


def test_an_answer_that_is_used_is_not_old(folder: Path) -> None:
    """Files that nobody uses are removed."""
    chosen("q", {"plain": lambda: None, "quick": lambda: None})
    (file,) = folder.iterdir()
    os.utime(file, (1.0, 1.0))
    chosen("q", {"plain": must_not_run, "quick": must_not_run})
    assert file.stat().st_mtime > 1.0


def test_another_question_other_candidates_or_threads_are_measured_anew() -> None:
    chosen("q", {"plain": lambda: None, "quick": lambda: None})
    with pytest.raises(AssertionError):
        chosen("other", {"plain": must_not_run, "quick": must_not_run})
    with pytest.raises(AssertionError):
        chosen("q", {"plain": must_not_run, "third": must_not_run})
    if numba.get_num_threads() > 1:
        numba.set_num_threads(1)
        with pytest.raises(AssertionError):
            chosen("q", {"plain": must_not_run, "quick": must_not_run})


def test_a_single_candidate_needs_no_measurement() -> None:
    assert chosen("q", {"plain": must_not_run}) == Choice("plain", {})


@pytest.mark.parametrize("text", ["", "{", '{"name": "gone", "seconds": {}}', "[1]", "\x00\x01"])
def test_a_spoilt_answer_is_measured_anew_and_mended(folder: Path, text: str) -> None:
    candidates = {"plain": sleeping(0.01, []), "quick": sleeping(0.001, [])}
    chosen("q", candidates)
    (path,) = folder.iterdir()
    path.write_text(text, encoding="utf-8")
    assert chosen("q", candidates).name == "quick"
    assert json.loads(path.read_text(encoding="utf-8"))["question"] == "q"


def test_the_first_of_two_that_measure_at_once_decides(folder: Path) -> None:
    def overtaken() -> None:
        (path,) = [autotuning._answer_path("q", ["plain", "quick"])]
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"name": "plain", "seconds": {"plain": 1.0, "quick": 2.0}}')

    found = chosen("q", {"plain": sleeping(0.01, []), "quick": overtaken})
    assert found.name == "plain"
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(("chosen_by_user", "mode"), [("", 0o600), ("/of/a/group", 0o664)])
def test_answers_are_for_those_whom_the_kernels_are_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, chosen_by_user: str, mode: int
) -> None:
    monkeypatch.setattr(autotuning.SETTINGS, "CACHE_DIR", chosen_by_user)
    before = os.umask(0o002)
    try:
        chosen("q", {"plain": sleeping(0.001, []), "quick": lambda: None})
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == mode


def test_where_nothing_can_be_written_the_answer_still_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(autotuning, "CACHE_FOLDER", tmp_path / "file")
    assert chosen("q", {"plain": sleeping(0.01, []), "quick": lambda: None}).name == "quick"
