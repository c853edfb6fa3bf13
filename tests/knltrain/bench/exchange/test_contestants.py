"""Who there is, and what is said of those that are not."""

import pytest

from knltrain.bench.exchange.contestants import MASTERS, OURS, all_reduce_by, known_peers, started
from knltrain.bench.step.peer_process import PeerError
from knltrain.communication.oneccl import library
from knltrain.errors import ConfigError


def test_what_must_move_through_memory():
    accesses = {each.name: each.accesses(3) for each in (*OURS, all_reduce_by("gloo"))}
    assert {each.name: each.accesses(3) for each in MASTERS} == {
        "sync_easgd1": 21, "original_easgd": 12, "one visit": 4
    }  # fmt: skip
    assert accesses == {"sync_easgd": 8, "average": 7, "visit": 12, "gloo": 6}


def test_peers_are_known_by_name_and_taken_once():
    assert known_peers(["mpi", "gloo", "mpi"]) == ["mpi", "gloo"]
    with pytest.raises(ConfigError, match=r"unknown peer 'glo'.*did you mean 'gloo'"):
        known_peers(["glo"])


@pytest.mark.parametrize("name", ["oneccl", "oneccl-shm", "ccl"])
def test_oneccl_that_is_not_installed_is_told_in_words(name, monkeypatch):
    monkeypatch.setattr(library, "PACKAGE", "no-such-package")
    with pytest.raises(PeerError, match=r"not installed: pip install 'knltrain\[oneccl\]'"):
        started(name, [[0], [1]])
