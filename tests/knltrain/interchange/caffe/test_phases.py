from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.phases import NetState, is_in
from knltrain.interchange.caffe.text_format import parse

TRAIN = NetState("TRAIN", 1, frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", True),
        ("include { }", True),
        ("include { phase: TRAIN }", True),
        ("include { phase: TEST }", False),
        ("include { phase: TEST } include { phase: TRAIN }", True),
        ("exclude { phase: TRAIN }", False),
        ("exclude { phase: TEST }", True),
        ("include { min_level: 1 max_level: 1 }", True),
        ("include { min_level: 2 }", False),
        ("include { max_level: 0 }", False),
        ("include { stage: 'a' stage: 'b' }", True),
        ("include { stage: 'a' stage: 'c' }", False),
        ("include { not_stage: 'b' }", False),
        ("include { not_stage: 'c' phase: TRAIN }", True),
        ("exclude { stage: 'c' } exclude { stage: 'a' }", False),
    ],
)
def test_rules_say_which_layers_are_in(rules: str, expected: bool) -> None:
    assert is_in(parse(rules, "a"), TRAIN) is expected


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("include { }\nexclude { }", "a:2: both include .line 1. and exclude: expected rules of"),
        ("include { phase: TRIAN }", "unknown phase 'TRIAN': .* did you mean 'TRAIN'"),
        ("include { min_level: 'x' }", "min_level: 'x': expected a whole number"),
    ],
)
def test_rules_that_cannot_be_are_named(rules: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        is_in(parse(rules, "a"), TRAIN)


def test_state_is_merged_with_that_of_solver_and_net() -> None:
    told = parse("phase: TEST level: 3 stage: 'c'", "a")
    assert TRAIN.merged(told) == NetState("TRAIN", 3, frozenset("abc"))
    assert list(told.unread()) == []
