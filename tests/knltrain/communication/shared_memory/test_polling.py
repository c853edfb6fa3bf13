from __future__ import annotations

from knltrain.communication.shared_memory.polling import nap_until


def test_nap_ends_when_what_is_looked_for_comes() -> None:
    looks = iter([False] * 5 + [True])
    assert nap_until(lambda: next(looks), lambda: None, lambda: None, 20)


def test_peers_are_looked_after_now_and_then() -> None:
    checks: list[str] = []
    assert not nap_until(
        lambda: False, lambda: checks.append("cheap"), lambda: checks.append("dear"), 0.35
    )
    assert 1 <= checks.count("dear") <= 3 < checks.count("cheap")
