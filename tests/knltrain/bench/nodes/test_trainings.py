"""Which trainings there are."""

from __future__ import annotations

import pytest

from knltrain.bench.nodes.trainings import named, trainings
from knltrain.errors import ConfigError


def test_trainings_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'mpi'.*ddp-gloo"):
        named(["mpi"])
    with pytest.raises(ConfigError, match="--trainings: expected some of one-host"):
        named([])


def test_names_are_taken_in_their_order_and_once() -> None:
    assert [each.name for each in named(["star", "seasgd", "star"])] == ["star", "seasgd"]
    assert [each.name for each in named(("all",))] == list(trainings())


def test_each_training_on_hosts_is_compared_with_one_of_its_kind() -> None:
    found = {name: each.of_one_host for name, each in trainings().items()}
    assert found == {
        "one-host": None,
        "ddp-one-host": None,
        "ccl": "one-host",
        "gloo": "one-host",
        "ddp-ccl": "ddp-one-host",
        "ddp-gloo": "ddp-one-host",
        "ccl-bfloat16": "one-host",
        "gloo-bfloat16": "one-host",
        "layerwise-ccl": "one-host",
        "layerwise-gloo": "one-host",
        "trees-mpi": "one-host",
        "seasgd": "one-host",
        "star": "one-host",
    }
