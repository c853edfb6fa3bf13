"""Turns that contestants and the copy take."""

import pytest

from knltrain.bench.exchange import turns
from knltrain.bench.exchange.contestants import COPY, OURS, SEGMENT, all_reduce_by
from knltrain.bench.exchange.vectors import Vectors


class Scripted:
    """A crew whose operations take known times."""

    def __init__(self, name, diary, **seconds):
        self.name, self.diary, self._seconds = name, diary, seconds

    def hold(self, name, sizes, handles=()):
        self.diary.append(("hold", self.name, tuple(sizes)))

    def drop(self, name):
        self.diary.append(("drop", self.name))

    def seconds(self, name, operation, count, members=None):
        self.diary.append((self.name, operation, count))
        return self._seconds[operation]


@pytest.fixture
def scripted():
    diary = []
    crews = {
        SEGMENT: Scripted(SEGMENT, diary, sync_easgd=1e-3),
        "gloo": Scripted("gloo", diary, all_reduce=0.5),
        COPY: Scripted(COPY, diary, numpy=0.25, torch=0.5),
    }
    return crews, diary


def test_everyone_holds_the_vectors_and_all_take_turns_round_by_round(scripted):
    crews, diary = scripted
    contestants = [OURS[0], all_reduce_by("gloo")]
    (found,) = turns.take_turns([Vectors([250], 2)], crews, contestants, 2, rounds=2)
    assert found.size == 1000
    assert found.seconds == {"sync_easgd": [1e-3, 1e-3], "gloo": [0.5, 0.5]}
    assert found.copy == [turns.copied_bytes(2) / 0.25] * 2
    assert diary[:2] == [("hold", SEGMENT, (250,)), ("hold", "gloo", (250,))]
    assert diary[-2:] == [("drop", SEGMENT), ("drop", "gloo")]
    a_round = [
        (COPY, "numpy", 4),
        (COPY, "torch", 4),
        (SEGMENT, "sync_easgd", 100),  # a tenth of a second
        ("gloo", "all_reduce", 1),  # one alone takes longer
    ]
    assert diary[-10:-2] == 2 * a_round


def test_several_sets_take_turns_within_a_round(scripted):
    crews, diary = scripted
    sets = [Vectors([30], 2), Vectors([10, 20], 2)]
    packed, layers = turns.take_turns(sets, crews, OURS[:1], 2, rounds=3)
    assert len(packed.seconds["sync_easgd"]) == len(layers.seconds["sync_easgd"]) == 3
    assert packed.copy == layers.copy
    assert ("hold", "gloo", (10, 20)) in diary


def test_what_is_over_in_no_time_ends_the_search_for_a_count(scripted):
    crews, _ = scripted
    crews[SEGMENT]._seconds["sync_easgd"] = 1e-9
    assert turns._count(crews[SEGMENT], "a", OURS[0]) == turns._MOST_COUNT
