from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.stream import Stream

PARTS = (slice(0, 5), slice(5, 10))


@pytest.mark.parametrize(
    ("period", "stream", "problem"),
    [
        (7, Stream(PARTS), "expected a multiple of exchange.fragments = 2"),
        (8, Stream(PARTS, 4), "delay_steps = 4: expected at least 0 and less"),
        (8, Stream(PARTS[:1], 0, 1.0), "mixing = 1.0"),
    ],
)
def test_fragments_have_slots_of_whole_steps(period: int, stream: Stream, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        stream.check(period)


def test_each_fragment_has_one_slot_in_a_period() -> None:
    first, second = PARTS
    stream = Stream(PARTS)
    found = [stream.fragment_after(steps, 6) for steps in range(13)]
    assert found == [{3: first, 6: second, 9: first, 12: second}.get(steps) for steps in range(13)]
