"""Times between and beyond measured ones."""

from __future__ import annotations

import pytest

from knltrain.cost_model.measured import MeasuredTimes, interpolated
from knltrain.errors import ConfigError

RANKS, SIZES = (2, 4, 8), (1_000, 10_000, 1_000_000)


def power(size: float, ranks: float) -> float:
    return float(1e-6 * size**0.75 * ranks**0.5)


@pytest.fixture
def times() -> MeasuredTimes:
    return MeasuredTimes({(size, ranks): power(size, ranks) for size in SIZES for ranks in RANKS})


@pytest.mark.parametrize("size", [1, 1_000, 3_000, 10_000, 500_000, 1_000_000, 10**9])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 64])
def test_powers_are_followed(times: MeasuredTimes, size: int, ranks: int) -> None:
    assert times.seconds(size, ranks) == pytest.approx(power(size, ranks))


def test_measured_times_are_returned_as_they_are_and_a_jump_stays_where_it_is() -> None:
    known = {(10, 2): 1.0, (20, 2): 5.0, (40, 2): 6.0, (10, 4): 2.0, (20, 4): 7.0, (40, 4): 8.0}
    times = MeasuredTimes(known)
    assert [times.seconds(*at) for at in known] == pytest.approx(list(known.values()))
    assert 1.0 < times.seconds(14, 2) < 5.0 < times.seconds(28, 2) < 6.0


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        ({(1, 2): 1.0}, "times of 1 sizes and 1 numbers of ranks: expected at least two of each"),
        (
            {(1, 2): 1.0, (2, 2): 1.0, (1, 4): 1.0},
            "2 bytes, 4 ranks: no time; expected one for every pair",
        ),
        ({(n, p): 0.0 for n in (1, 2) for p in (2, 4)}, "1 bytes, 2 ranks, 0.0 s: expected finite"),
        ({(n, p): 1.0 for n in (0, 2) for p in (2, 4)}, "0 bytes, 2 ranks, 1.0 s: expected finite"),
        ({(n, p): float("nan") for n in (1, 2) for p in (2, 4)}, "ranks, nan s: expected finite"),
    ],
    ids=["one", "a hole", "no time", "no bytes", "no number"],
)
def test_tables_that_tell_nothing_are_refused(
    seconds: dict[tuple[int, int], float], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        MeasuredTimes(seconds)


def test_less_than_a_byte_or_a_rank_is_refused(times: MeasuredTimes) -> None:
    with pytest.raises(ConfigError, match="0 bytes, 2 ranks: expected at least one of each"):
        times.seconds(0, 2)


def test_sizes_between_and_beyond_known_ones_follow_their_power() -> None:
    known = {10: 1.0, 1000: 100.0, 10_000: 200.0}
    assert interpolated(known, 100) == pytest.approx(10.0)
    assert interpolated(known, 1) == pytest.approx(0.1)
    assert interpolated(known, 100_000) == pytest.approx(400.0)
    assert interpolated({10: 1.0}, 10) is None
