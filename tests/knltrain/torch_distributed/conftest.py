"""Real ranks for the tests of the backend: processes that run one scenario, and what they found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from knltrain.communication.oneccl import installed

from ..ranks import Ranks, Started, said_by_a_library

SCENARIO = Path(__file__).with_name("scenario.py")
LIMIT_SECONDS = 240


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have `scripts/test --ipex` run these tests, too, with the oldest torch that is supported."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("oldest_torch")


class Members(Ranks):
    """The ranks of one group."""

    def __init__(self, folder: Path, name: str, ranks: int, backend: str) -> None:
        store = folder / "store"
        self._results = [folder / f"{rank}.pt" for rank in range(ranks)]
        super().__init__(
            [
                [str(SCENARIO), name, backend, str(rank), str(ranks), str(store), str(file)]
                for rank, file in enumerate(self._results)
            ]
        )

    def hear(self, rank: int) -> str:
        """Return the next line that a rank prints; libraries print others before."""
        while said_by_a_library(line := super().hear(rank)):
            pass
        return line

    def result(self, rank: int) -> dict[str, Any]:
        """Return what a rank found, once it has ended."""
        assert self.processes[rank].wait(LIMIT_SECONDS) == 0
        found: dict[str, Any] = torch.load(self._results[rank])
        return found

    def results(self) -> list[dict[str, Any]]:
        found = [self.result(rank) for rank in range(len(self.processes))]
        traces = [
            f"rank {rank}: {one['trace']}" for rank, one in enumerate(found) if "error" in one
        ]
        assert not traces, "\n".join(traces)
        return found


class Start(Started):
    """Starts ranks, and ends what is left of them."""

    def __init__(self, folder: Path, backend: str) -> None:
        super().__init__(folder)
        self._backend = backend

    def __call__(self, name: str, ranks: int = 2) -> Members:
        return self.add(Members(self.new_folder(), name, ranks, self._backend))


NEEDS_ONECCL = pytest.mark.skipif(installed() is None, reason="oneCCL is not installed")
BACKENDS = ["knlshm", pytest.param("ccl", marks=NEEDS_ONECCL)]


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return str(request.param)


@pytest.fixture
def start(tmp_path: Path, backend: str) -> Iterator[Start]:
    """Start ranks: `start(scenario, ranks)`."""
    starter = Start(tmp_path, backend)
    yield starter
    starter.end()


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory, backend: str) -> list[Any]:
    """What two ranks found in the scenario `common`."""
    return _found(tmp_path_factory.mktemp("common"), backend, "common", 2)


@pytest.fixture(scope="session")
def every_case(tmp_path_factory: pytest.TempPathFactory, backend: str) -> list[Any]:
    """What three ranks found in the scenario `every_case`."""
    return _found(tmp_path_factory.mktemp("cases"), backend, "every_case", 3)


def _found(folder: Path, backend: str, name: str, ranks: int) -> list[Any]:
    starter = Start(folder, backend)
    try:
        return starter(name, ranks).results()
    finally:
        starter.end()


@pytest.fixture(scope="session")
def differences() -> Any:
    """differences(found, kinds): which cases of some kinds differ from gloo's."""

    def look(found: list[Any], kinds: set[str]) -> list[str]:
        names = [name for name in found[0]["cases"] if name.split()[0] in kinds]
        assert names
        differing = [(name, one["cases"][name][0]) for one in found for name in names]
        return [f"{name}: {difference}" for name, difference in differing if difference]

    return look
