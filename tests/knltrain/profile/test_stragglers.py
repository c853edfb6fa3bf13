from __future__ import annotations

from typing import Any

import pytest

from knltrain.profile.stragglers import slow_ranks, told_of_stragglers


def ranks(*seconds: float, last: list[float] | None = None, late: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "rank": number, "steps": 20, "useful_seconds": each, "late_steps": late * number,
            "last_share": None if last is None else last[number], "classes": {"gradient": each},
        }
        for number, each in enumerate(seconds)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ranks(1.0, 1.0, 1.3, 1.0, last=[0.1, 0.1, 0.7, 0.1]), [2]),
        (ranks(1.0, 1.2, 1.3, 1.0, last=[0.0, 0.5, 0.5, 0.0]), [2, 1]),
        (ranks(1.0, 1.04, last=[0.2, 0.8]), []),
        (ranks(1.0, 1.3, last=[0.4, 0.6]), []),  # two workers: not much more often than by chance
        (ranks(1.0, 1.3, last=[0.2, 0.8]), [1]),
        (ranks(1.0, 1.0, 1.3), [2]),  # who comes alone is never the last
        (ranks(0.0, 1.0, last=[0.0, 1.0]), []),  # who has no images is no measure for others
        (ranks(0.0, 0.0), []),
    ],
)
def test_who_is_slow_all_the_time_is_a_straggler(
    found: list[dict[str, Any]], expected: list[int]
) -> None:
    assert slow_ranks(found) == expected


def test_a_straggler_is_named_and_noise_is_told_from_it() -> None:
    slow = told_of_stragglers(ranks(1.0, 1.0, 1.3, last=[0.1, 0.1, 0.8]))
    assert slow == (
        "persistent stragglers: worker 2 (computes 30 % longer than the median one, last in 80 % "
        "of the steps)"
    )
    noise = told_of_stragglers(ranks(1.0, 1.0, late=3))
    assert noise == "no persistent straggler; noise: worker 1 was late in 3 of 20 steps"
    assert told_of_stragglers(ranks(1.0, 1.0)).endswith("noise: no late steps")
