from __future__ import annotations

import errno
from collections.abc import Iterable

import pytest

from affinity import MemoryPolicyError, read_topology
from affinity.cli.checking import policies
from affinity.cli.checking.policies import policy_findings
from affinity.process.memory_policy import allowed_memories
from affinity.topology import Topology


def _levels(topology: Topology, mems: tuple[int, ...]) -> list[tuple[str, str]]:
    return [(found.level, found.subject) for found in policy_findings(topology, mems)]


def test_a_page_bound_to_each_node_lies_there_on_this_machine() -> None:
    found = list(policy_findings(read_topology(), allowed_memories()))
    if "cannot be put under" in found[0].text:
        pytest.skip(f"this container forbids memory policies: {found[0].text}")
    assert found[0].level == "ok"
    assert found[0].text.endswith("came to lie there")
    assert found[1].text.startswith("this kernel knows bind, preferred")


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Where a page that is bound to a node comes to lie, in place of the kernel."""
    places: dict[int, int] = {}
    monkeypatch.setattr(policies, "_page_bound_to", lambda node: places.get(node, node))
    return places


def _knows(monkeypatch: pytest.MonkeyPatch, *modes: str) -> None:
    def bind(address: int, size: int, mode: str, nodes: Iterable[int]) -> None:
        if mode not in modes:
            raise MemoryPolicyError("unknown mode", errno.EINVAL)

    monkeypatch.setattr(policies, "bind_memory", bind)


def test_page_that_strays_is_a_failure(
    xeon_max: Topology, pages: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages[2] = 0
    _knows(monkeypatch, "bind", "preferred", "interleave", "preferred-many", "weighted-interleave")
    stray, modes = policy_findings(xeon_max, (0, 1, 2, 3))
    assert (stray.level, stray.text) == ("fail", "a page bound to HBM 2 came to lie on node 0")
    assert modes.level == "ok"


def test_modes_that_an_old_kernel_lacks_are_told_with_what_it_gets(
    xeon_max: Topology, pages: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _knows(monkeypatch, "bind", "preferred", "interleave")
    works, modes = policy_findings(xeon_max, (0, 2))
    assert works.text == "a page bound to each of DRAM 0 and HBM 2 came to lie there"
    assert (modes.level, modes.text) == (
        "note",
        "this kernel knows bind, preferred and interleave; in place of preferred-many it gets "
        "preferred and weighted-interleave it gets interleave",
    )


@pytest.mark.parametrize(("mems", "level"), [((0, 1, 2, 3), "fail"), ((0,), "note")])
def test_forbidden_policies_fail_where_there_is_a_choice(
    mems: tuple[int, ...], level: str, xeon_max: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(node: int) -> int:
        raise MemoryPolicyError("memory policy bind:0 cannot be set: EPERM", errno.EPERM)

    monkeypatch.setattr(policies, "_page_bound_to", forbidden)
    assert _levels(xeon_max, mems) == [(level, "memory policies")]
