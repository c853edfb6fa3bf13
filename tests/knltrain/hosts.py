"""Hosts of their own addresses on this machine, for tests that run Python on them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from knltrain.bench.nodes.hosts import Hosts, NoHosts

REPOSITORY = Path(__file__).parents[2]


@contextmanager
def hosts_or_skip(
    count: int, gbits: float | None = None, latency_us: float = 0.0
) -> Iterator[Hosts]:
    """So many hosts for a block; the test skips where there can be none."""
    try:
        made = Hosts(count, gbits, latency_us)
    except NoHosts as reason:
        pytest.skip(str(reason))
    try:
        yield made
    finally:
        made.end()


def run(
    made: Hosts,
    number: int,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[str]:
    """Run Python on a host."""
    return subprocess.Popen(
        [*made.way(number), sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
