"""One worker with both loops, alone."""

from __future__ import annotations

import pytest

from knltrain.bench.elastic.member import ELASTIC, PLAIN, Answers
from knltrain.network.layers import Dense, Dropout, Flatten
from knltrain.network.network import Network
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
    assert answers({"do": "leave"}) == {}


def test_dropout_draws_the_same_in_both() -> None:
    layers = (Flatten("flat"), Dropout("dropout", 0.5), Dense("out", 3))
    network = Network("drops", (4, 4, 1), layers)
    answers = Answers(network, 4, "sync_easgd", {"implementation": "reference"})
    answers({"do": "join", "token": ""})
    plain, elastic = answers({"do": "losses", "steps": 1})["losses"]
    assert elastic == pytest.approx(plain, rel=1e-6)
    answers({"do": "leave"})
