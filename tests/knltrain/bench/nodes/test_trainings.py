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
    assert [each.name for each in named(["gloo", "one-host", "gloo"])] == ["gloo", "one-host"]


@pytest.mark.parametrize("oneccl", [True, False])
@pytest.mark.parametrize("mpi", [True, False])
def test_all_are_those_that_have_what_they_need(
    oneccl: bool, mpi: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "knltrain.bench.nodes.trainings"
    monkeypatch.setattr(f"{place}.installed", lambda: ("2022.1", "/") if oneccl else None)
    monkeypatch.setattr(f"{place}.importlib.util.find_spec", lambda _: "there" if mpi else None)
    left_out = set()
    for name, by, needed, there in (
        ("layerwise-ccl", "ccl", "oneCCL", oneccl),
        ("trees-mpi", "mpi", "mpi4py", mpi),
    ):
        if there:
            assert [each.name for each in named([name])] == [name]
            continue
        left_out |= {each for each, found in trainings().items() if found.by == by}
        with pytest.raises(ConfigError, match=f"'{name}': .*{needed}.*pip install"):
            named([name])
    assert [each.name for each in named(("all",))] == [
        name for name in trainings() if name not in left_out
    ]


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
