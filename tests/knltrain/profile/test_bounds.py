from __future__ import annotations

import pytest

from knltrain.profile.bounds import Ceilings, binding, exchange_binding
from vectorized_ops.machine_bounds import Bounds

BOUNDS = Bounds(flops_per_second=100.0, bytes_per_second=10.0)


@pytest.mark.parametrize(
    ("flops", "moved", "seconds", "expected"),
    [
        (200.0, 1.0, 3.0, ("compute", 2.0)),
        (10.0, 30.0, 4.0, ("memory", 3.0)),
        (100.0, 9.5, 1.5, ("mixed", 1.0)),
        (0.0, 0.0, 1.0, None),
        (0.0, 5.0, 1.0, ("memory", 0.5)),
    ],
)
def test_the_larger_term_binds(
    flops: float, moved: float, seconds: float, expected: tuple[str, float] | None
) -> None:
    assert binding(flops, moved, BOUNDS, seconds) == expected


def test_short_regions_far_from_their_bound_are_bound_by_latency_and_long_ones_are_slow() -> None:
    assert binding(1e-3, 0.0, BOUNDS, 5e-5) == ("latency", 1e-5)
    assert binding(1e-3, 0.0, BOUNDS, 1.5e-5) == ("compute", 1e-5)
    assert binding(100.0, 0.0, BOUNDS, 7.0) == ("compute", 1.0)


def test_a_call_is_short_or_long_not_all_calls_of_a_step() -> None:
    assert binding(1e-3, 0.0, BOUNDS, 5e-3, calls=1) == ("compute", 1e-5)
    assert binding(1e-3, 0.0, BOUNDS, 5e-3, calls=8) == ("latency", 1e-5)


@pytest.mark.parametrize(
    ("segment", "sent", "link", "seconds", "expected"),
    [
        (20, None, 0.0, 3.0, ("memory", 2.0)),
        (20, 0, 5.0, 3.0, ("memory", 2.0)),
        (None, 20, 5.0, 5.0, ("network", 4.0)),
        (20, 9.5, 5.0, 3.0, ("mixed", 2.0)),
        (20, 20, 1e6, 3.0, ("memory", 2.0)),
        (None, 20, 0.0, 3.0, None),
        (None, None, 5.0, 3.0, None),
    ],
)
def test_an_exchange_is_bound_by_the_link_or_by_memory(
    segment: float | None,
    sent: float | None,
    link: float,
    seconds: float,
    expected: tuple[str, float] | None,
) -> None:
    ceilings = Ceilings(100.0, 100.0, 10.0, link)
    assert exchange_binding(segment, sent, ceilings, seconds) == expected


def test_a_short_exchange_far_from_its_bound_is_bound_by_latency() -> None:
    ceilings = Ceilings(100.0, 100.0, 1e6, 1e5)
    assert exchange_binding(1, 1, ceilings, 5e-4) == ("latency", 1e-5)
    assert exchange_binding(1, 1, ceilings, 5e-3) == ("network", 1e-5)
