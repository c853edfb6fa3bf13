"""Real processes that each run one rank of a scenario, for the tests of exchanges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..forked_python import start_python


def said_by_a_library(line: str) -> bool:
    """Whether a rank did not print this line itself: oneCCL, and gloo of torch 2.8, do so, too."""
    return "CCL_WARN" in line or line.startswith("[Gloo]")


def told_as_json(output: str) -> list[Any]:
    """What a rank has printed, a list or a truth a line, among what libraries print."""
    lines = [line for line in output.splitlines() if not said_by_a_library(line)]
    return [json.loads(line) for line in lines if line.startswith(("[", "true", "false"))]


class Ranks:
    """The processes of one scenario by rank, started with these arguments, the program first."""

    def __init__(self, arguments: Sequence[Sequence[str]], pass_fds: Sequence[int] = ()) -> None:
        self.processes = [start_python(each, pass_fds=pass_fds) for each in arguments]

    def hear(self, rank: int) -> str:
        """Return the next line that a rank prints."""
        return self.processes[rank].stdout.readline().strip()

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


class CanEnd(Protocol):
    def end(self) -> None: ...


Kind = TypeVar("Kind", bound=CanEnd)


class Started:
    """What a test has started, each with a folder of its own; ends whatever is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: list[CanEnd] = []

    def new_folder(self) -> Path:
        folder = self._folder / str(len(self._all))
        folder.mkdir()
        return folder

    def add(self, one: Kind) -> Kind:
        self._all.append(one)
        return one

    def end(self) -> None:
        for each in self._all:
            each.end()
