"""The command `knltrain` as a real process, for tests of everything at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment

from ..small_run import RUN_TOML
from ..still_clock import clock as clock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]

Start: TypeAlias = Callable[..., subprocess.Popen[str]]
"""start(*arguments, cwd=folder): `knltrain *arguments` with piped output, started in `folder`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked `ipex` or `gpu` where there is none."""
    if of_devices := [item for item in items if item.get_closest_marker("gpu")]:
        import torch

        if torch.accelerator.current_accelerator(check_available=True) is None:
            skip = pytest.mark.skip(reason="PyTorch finds no device beside the host: no GPU here")
            for item in of_devices:
                item.add_marker(skip)
    if find_spec("intel_extension_for_pytorch") is None:
        skip = pytest.mark.skip(reason="IPEX 2.8 is not installed: see scripts/test --ipex")
        for item in items:
            if item.get_closest_marker("ipex"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def start_knltrain() -> Start:
    """Starts `knltrain` from these sources. A run draws no pictures, unless they are asked for."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start(*arguments: str, cwd: Path, pictures: bool = False) -> subprocess.Popen[str]:
        more = ("--no-pictures",) if arguments[0] == "train" and not pictures else ()
        return subprocess.Popen(
            [sys.executable, "-m", "knltrain", *arguments, *more],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def two_cores() -> None:
    """Skips what needs two workers with cores of their own, where there are none."""
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    if cores < 2:
        pytest.skip(f"two pinned workers need 2 physical cores, the allowed cpus hold {cores}")


@pytest.fixture(scope="session")
def run_toml() -> str:
    """A run of two workers that takes 6 steps per epoch and writes checkpoints after each."""
    return RUN_TOML


@pytest.fixture(scope="session")
def in_threads() -> Callable[..., list[Any]]:
    """in_threads(size, workers, work): what `work(transport)` returns for each of several workers.

    The workers are threads of this process, with vectors of `size` values in a real segment.
    """

    def run(
        size: int, workers: int, work: Callable[[NodeShared], Any], center_vectors: int = 1
    ) -> list[Any]:
        segment = Segment.create(size, workers, "memfd", center_vectors=center_vectors)

        def one_worker(rank: int) -> Any:
            transport = NodeShared(Segment.attach(os.dup(segment.fd)), rank, timeout_seconds=20)
            try:
                return work(transport)
            except BaseException:
                segment.abort(1)
                raise
            finally:
                transport.close()

        try:
            with ThreadPoolExecutor(workers) as pool:
                return list(pool.map(one_worker, range(workers)))
        finally:
            segment.close()

    return run


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures that were written, in order."""
    from matplotlib.figure import Figure

    figures, save = list[Figure](), Figure.savefig

    def save_and_keep(self: Figure, path: Path, **options: Any) -> None:
        figures.append(self)
        save(self, path, **options)

    monkeypatch.setattr(Figure, "savefig", save_and_keep)
    return figures
