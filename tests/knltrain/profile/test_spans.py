from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knltrain.profile.spans import Span, common, overlap, total, union, without

Spans = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda each: (each[0], sum(each))),
    max_size=8,
)


def covered(spans: list[Span]) -> set[int]:
    """The unit intervals that lie in any of the spans."""
    return {place for begin, end in spans for place in range(int(begin), int(end))}


@given(spans=Spans)
def test_a_union_covers_what_its_spans_do_and_its_spans_lie_apart(spans: list[Span]) -> None:
    found = union(spans)
    assert covered(found) == covered(spans)
    assert total(found) == len(covered(spans))
    assert all(some[1] < more[0] for some, more in pairwise(found))


@given(some=Spans, others=Spans)
def test_time_is_either_within_the_other_or_outside(some: list[Span], others: list[Span]) -> None:
    first, second = union(some), union(others)
    inside, outside = common(first, second), without(first, second)
    assert inside == len(covered(some) & covered(others))
    assert covered(outside) == covered(some) - covered(others)
    assert total(outside) == pytest.approx(total(first) - inside)


@given(computing=Spans, exchanging=Spans, ready=Spans)
def test_hidden_is_what_of_an_exchange_lies_within_computing(
    computing: list[Span], exchanging: list[Span], ready: list[Span]
) -> None:
    found = overlap(computing, exchanging, ready)
    exchanges = covered(exchanging) | covered(ready)
    assert found.whole == len(exchanges)
    assert found.hidden == len(exchanges & covered(computing) - covered(ready))
