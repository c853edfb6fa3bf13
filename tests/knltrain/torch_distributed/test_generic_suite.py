"""PyTorch's own tests of backends, on each of ours beside gloo."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .generic_suite import Suite, names

DOCUMENT = Path(__file__).parents[3] / "docs" / "torch.md"
HOURS = 2 * 3600
FEWEST_WITH_GLOO = {2: 190, 3: 215}
TURNS = 3
"""Some of the tests have time limits of their own, of which other work on the machine takes."""


def refused() -> set[str]:
    """The tests that the document names as those that cannot pass."""
    return set(re.findall(r"^\| `(test_\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.M))


@contextmanager
def suite_of(backend: str, ranks: int) -> Iterator[Suite]:
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(backend, ranks, Path(folder))
        try:
            yield suite
        finally:
            suite.end()


@functools.cache
def passing_with_gloo(ranks: int) -> frozenset[str]:
    with suite_of("gloo", ranks) as suite:
        return frozenset(name for name in names() if suite.run(name)[0] == "passed")


@pytest.mark.long
@pytest.mark.timeout(HOURS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_what_passes_with_gloo_passes_with_ours(backend: str, ranks: int) -> None:
    with_gloo = passing_with_gloo(ranks)
    assert len(with_gloo) >= FEWEST_WITH_GLOO[ranks]
    failed = dict.fromkeys(sorted(with_gloo - refused()), "")
    with suite_of(backend, ranks) as suite:
        for _ in range(TURNS):
            said = {name: suite.run(name) for name in failed}
            failed = {name: f"{way}: {why}" for name, (way, why) in said.items() if way != "passed"}
        without = {name: suite.run(name) for name in sorted(refused())}
    assert failed == {}
    for name, (way, why) in without.items():
        assert way == "failed", f"{name} {way}: it belongs in no list of those that cannot pass"
        assert "monitored_barrier" in why


def test_only_what_torch_refuses_to_all_but_gloo_is_left_out() -> None:
    assert refused()
    assert refused() <= set(names())
    assert all("monitored_barrier" in name for name in refused())


@pytest.mark.slow
def test_suite_tells_how_tests_went(backend: str) -> None:
    with suite_of(backend, 2) as suite:
        assert suite.run("test_all_reduce_sum") == ("passed", "")
        way, why = suite.run("test_monitored_barrier_gloo")
        assert way == "failed"
        assert "only implemented for GLOO backend" in why
        assert suite.run("test_ddp_has_finalized")[0] == "skipped"
        assert suite.run("test_barrier")[0] == "passed"
