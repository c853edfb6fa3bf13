"""One worker with both loops, alone."""

from __future__ import annotations

import pytest

from knltrain.bench.elastic.member import ELASTIC, PLAIN, Answers
from knltrain.network.zoo.lenet import lenet


def test_both_loops_begin_alike_and_learn() -> None:
    answers = Answers(lenet(), 4, "sync_easgd", {"implementation": "reference"})
    assert answers({"do": "token"}) == {"token": ""}
    assert answers({"do": "join", "token": ""}) == {}
    plain, elastic = answers({"do": "losses", "steps": 3})["losses"]
    assert elastic[0] == pytest.approx(plain[0], rel=1e-6)
    assert plain[2] < plain[0]
    assert elastic[2] < elastic[0]
    for name in (PLAIN, ELASTIC):
        told = answers({"do": "run", "operation": name, "count": 1})
        assert told["begin"] < told["end"]
    answers.close()


def test_one_that_has_not_joined_may_leave() -> None:
    Answers(lenet(), 4, "sync_easgd", {}).close()
