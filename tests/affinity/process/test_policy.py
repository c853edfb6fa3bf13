from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinity.errors import AffinityError, MemoryPolicyError
from affinity.process.policy import MAXNODE, Policy, check_form, packed, parse_policy, unpacked


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("bind:2-3,8", Policy("bind", (2, 3, 8))),
        ("preferred:4", Policy("preferred", (4,))),
        ("default", Policy("default")),
        ("local", Policy("local")),
    ],
)
def test_policy_reads_back_as_it_is_written(text: str, policy: Policy) -> None:
    assert (parse_policy(text), str(policy)) == (policy, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("binds:2", "unknown memory policy 'binds': expected default, preferred, bind"),
        ("bind", "bind takes one node or more, as in 0-1; given: none"),
        ("preferred:2-3", "preferred takes exactly one node; given: 2-3"),
        ("default:0", "default takes no nodes; given: 0"),
        ("bind:1024", "nodes run from 0 to 1023"),
    ],
)
def test_policy_that_makes_no_sense_is_refused_with_what_was_expected(
    text: str, reason: str
) -> None:
    with pytest.raises(MemoryPolicyError) as caught:
        parse_policy(text)
    assert reason in str(caught.value)


def test_bad_list_of_nodes_is_named() -> None:
    with pytest.raises(AffinityError, match="'2-x'"):
        parse_policy("bind:2-x")


def test_negative_node_is_refused() -> None:
    with pytest.raises(MemoryPolicyError, match="nodes run from 0"):
        check_form(Policy("bind", (-1,)))


def test_kernel_gets_the_number_of_the_mode_and_one_bit_for_each_node() -> None:
    number, mask, bits = packed(Policy("preferred-many", (1, 64)))
    assert mask is not None
    assert (number, list(mask)[:3], bits) == (5, [2, 1, 0], 1025)


def test_kernel_gets_no_mask_without_nodes() -> None:
    assert packed(Policy("local")) == (4, None, 0)


@given(st.sets(st.integers(0, MAXNODE - 2), min_size=1))
def test_mask_holds_any_nodes(nodes: set[int]) -> None:
    _, mask, _ = packed(Policy("bind", tuple(nodes)))
    assert mask is not None
    assert unpacked(mask) == tuple(sorted(nodes))
