"""PyTorch's own tests of backends, on each of ours beside gloo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .generic_suite import Suite, names

DOCUMENT = Path(__file__).parents[3] / "docs" / "torch.md"
HOURS = 4 * 3600


def refused() -> set[str]:
    """The tests that the document names as those that cannot pass."""
    return set(re.findall(r"^\| `(test_\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.M))


def passing(suite: Suite, chosen: list[str]) -> set[str]:
    return {name for name in chosen if suite.run(name)[0] == "passed"}


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def with_gloo(ranks: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    suite = Suite("gloo", ranks, tmp_path_factory.mktemp("gloo"))
    yield passing(suite, names())
    suite.end()


@pytest.mark.long
@pytest.mark.timeout(HOURS)
def test_what_passes_with_gloo_passes_with_ours(
    with_gloo: set[str], ranks: int, backend: str, tmp_path: Path
) -> None:
    assert len(with_gloo) > 150
    suite = Suite(backend, ranks, tmp_path)
    try:
        left = sorted(with_gloo - refused())
        for _ in range(2):  # some of them have time limits of their own
            left = sorted(set(left) - passing(suite, left))
        assert {name: suite.run(name) for name in left} == {}
    finally:
        suite.end()


def test_only_what_torch_refuses_to_all_but_gloo_is_left_out() -> None:
    assert refused()
    assert refused() <= set(names())
    assert all("monitored_barrier" in name for name in refused())


@pytest.mark.slow
def test_suite_tells_how_tests_went(backend: str, tmp_path: Path) -> None:
    suite = Suite(backend, 2, tmp_path)
    try:
        assert suite.run("test_all_reduce_sum") == ("passed", "")
        way, why = suite.run("test_monitored_barrier_gloo")
        assert way == "failed"
        assert "only implemented for GLOO backend" in why
        assert suite.run("test_ddp_has_finalized")[0] == "skipped"
    finally:
        suite.end()
