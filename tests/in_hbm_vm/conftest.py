"""Boots an emulated machine with HBM, and runs affinity and knltrain in it.

The guest's kernel, its NUMA nodes and its pages are real to it; only the speed is not. One boot
runs all the commands of a test module, because it takes longer than most of them.
"""

from __future__ import annotations

import ctypes
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
HIDDEN_IN_THE_GUEST = ("/tmp", "/run", "/dev/shm")
COULD_NOT_BE_RUN = 125
PR_SET_PDEATHSIG = 1
SECONDS = 900
SAME_ADDRESSES = ("--append", "norandmaps")
"""Where all programs lie at the same addresses, the emulator translates their code once."""
ENVIRONMENT = (
    f"PYTHONPATH={REPOSITORY}",
    "PYTHONDONTWRITEBYTECODE=1",
    "HOME=/tmp",
    "OMP_WAIT_POLICY=passive",
    "OPENBLAS_THREAD_TIMEOUT=4",
)


class Outcome(NamedTuple):
    """What came of a command: its exit status, and what it printed."""

    status: int
    told: str
    error: str

    def facts(self) -> Any:
        """What it printed as JSON; the command must have ended well."""
        assert self.status == 0, self
        return json.loads(self.told)

    def ranks(self) -> list[dict[str, Any]]:
        """What ``rank.py`` printed in each rank; the run must have ended well."""
        assert self.status == 0, self
        return sorted(map(json.loads, self.told.splitlines()), key=lambda seen: seen["rank"])


Boot = Callable[[str, Mapping[str, str], Iterable[str]], dict[str, Outcome]]


@pytest.fixture(scope="module")
def boot() -> Boot:
    """A function (topology, {name: command}, options) -> {name: outcome}.

    In a command ``affinity``, ``knltrain`` and ``rank.py`` stand for the programs of these names.
    """
    tool = REPOSITORY.parent / "shared/tools/hbm-vm"
    if not tool.is_file():
        pytest.skip(f"{tool} is missing: it boots the machine with HBM")

    def run(
        topology: str, commands: Mapping[str, str], options: Iterable[str] = ()
    ) -> dict[str, Outcome]:
        seen = {str(REPOSITORY), sys.prefix, sys.base_prefix}
        binds = [path for path in sorted(seen) if path.startswith(HIDDEN_IN_THE_GUEST)]
        words = {name: list(_words(text)) for name, text in commands.items()}
        return _outcomes(
            [
                *(str(tool), "--topology", topology, "--timeout", str(SECONDS)),
                *(*SAME_ADDRESSES, *options),
                *(word for path in binds for word in ("--bind", path)),
                *(word for name_value in ENVIRONMENT for word in ("--env", name_value)),
                *("--", sys.executable, str(HERE / "session.py"), json.dumps(words)),
            ]
        )

    return run


def _words(command: str) -> Iterator[str]:
    for word in shlex.split(command):
        if word in ("affinity", "knltrain"):
            yield from (sys.executable, "-m", word)
        elif word == "rank.py":
            yield from (sys.executable, str(HERE / word))
        else:
            yield word


def _outcomes(command: list[str]) -> dict[str, Outcome]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        preexec_fn=_end_with_the_tests,
    )
    try:
        told, error = process.communicate()
    except BaseException:
        process.terminate()  # It ends its emulator.
        process.communicate()
        raise
    if process.returncode == COULD_NOT_BE_RUN and not told:
        pytest.skip(f"no machine with HBM can be booted: {error.strip()}")
    assert process.returncode == 0, error
    return {name: Outcome(*rest) for name, *rest in map(json.loads, told.splitlines())}


def _end_with_the_tests() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
