"""Rounds of random input: a short one that is always the same, and a long one of a minute.

A reader of what others write has to end in a value or in an error of the package, with any input:
in no traceback, no endless wait, and no memory without bounds (each process may have `MOST_BYTES`
more).
"""

from __future__ import annotations

import resource
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

Drawn = TypeVar("Drawn")

LONG_SECONDS = 60.0
MOST_BYTES = 2**32
LONGEST_SECONDS = 20.0
"""How long one input may take: generous, as other programs may keep all cores busy."""

NASTY = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xc2\xb2",
    b"[" * 4000,
    b'{"a":' * 4000,
    b"9" * 5000,
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b'"\\ud800"',
    b"\n",
    b",",
    b"=",
    b"<",
    b"4294967296",
    b"99999999999",
    b"../../",
)


def fuzzed(strategy: st.SearchStrategy[Drawn], examples: int = 60) -> Any:
    """Make a test of a check, which is given a folder and what was drawn."""

    def made(check: Callable[[Path, Drawn], None]) -> Callable[..., None]:
        @pytest.mark.parametrize(
            "seconds",
            [
                pytest.param(0.0, id="short"),
                pytest.param(LONG_SECONDS, id="long", marks=pytest.mark.long),
            ],
        )
        def test(tmp_path: Path, seconds: float) -> None:
            with bounded_memory():
                run(lambda drawn: check(tmp_path, drawn), strategy, seconds, examples)

        test.__doc__ = check.__doc__
        return test

    return made


def run(
    check: Callable[[Drawn], None],
    strategy: st.SearchStrategy[Drawn],
    seconds: float,
    examples: int,
) -> None:
    """Try the same examples as always, or new ones for so long."""

    def in_time(drawn: Drawn) -> None:
        begun = time.monotonic()
        check(drawn)
        assert time.monotonic() - begun < LONGEST_SECONDS

    chosen = settings(
        deadline=None,
        database=None,
        max_examples=examples,
        suppress_health_check=list(HealthCheck),
    )
    if not seconds:
        settings(chosen, derandomize=True)(given(strategy)(in_time))()
        return
    until_seconds = time.monotonic() + seconds
    while time.monotonic() < until_seconds:
        seed(secrets.randbits(64))(chosen(given(strategy)(in_time)))()


@contextmanager
def bounded_memory(more_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Let this process take no more than so much beyond what it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@st.composite
def altered(draw: st.DrawFn, samples: Sequence[bytes], most_changes: int = 5) -> bytes:
    """One of the samples with a few parts replaced by others, of it or of none."""
    content = bytearray(draw(st.sampled_from(list(samples))))
    for _ in range(draw(st.integers(0, most_changes))):
        begin = draw(st.integers(0, len(content)))
        end = begin + draw(st.sampled_from([0, 0, 1, 1, 2, 4, 8, 64, 10**9]))
        own = draw(st.integers(0, len(content)))
        content[begin:end] = draw(
            st.sampled_from(NASTY) | st.binary(max_size=8) | st.just(bytes(content[own : own + 16]))
        )
    return bytes(content)


def texts(samples: Sequence[str]) -> st.SearchStrategy[str]:
    """The same for texts, as variables of the environment hold them."""
    changed = altered([sample.encode() for sample in samples])
    return changed.map(lambda text: text.replace(b"\0", b"").decode("utf-8", "surrogateescape"))
