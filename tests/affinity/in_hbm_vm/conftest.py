"""Boots an emulated machine with HBM, and runs ``python -m affinity`` in it.

The guest's kernel, its NUMA nodes and its pages are real to it; only the speed is not. One boot
runs all the commands of a test module, because it takes longer than most of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
HIDDEN_IN_THE_GUEST = ("/tmp", "/run", "/dev/shm")
COULD_NOT_BE_RUN = 125
PR_SET_PDEATHSIG = 1
SECONDS = 900


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
    """A function (topology, {name: words after python -m affinity}, options) -> {name: outcome}.

    In the words ``rank.py`` stands for the program of that name here.
    """
    tool = REPOSITORY.parent / "shared/tools/hbm-vm"
    if not tool.is_file():
        pytest.skip(f"{tool} is missing: it boots the machine with HBM")

    def run(
        topology: str, commands: Mapping[str, str], options: Iterable[str] = ()
    ) -> dict[str, Outcome]:
        python = os.path.realpath(sys.executable)  # A launcher that picks a Python takes seconds.
        rank = shlex.join([python, str(HERE / "rank.py")])
        words = {
            name: [python, "-m", "affinity", *shlex.split(text.replace("rank.py", rank))]
            for name, text in commands.items()
        }
        seen = [REPOSITORY, Path(sys.base_prefix)]
        binds = [path for path in seen if str(path).startswith(HIDDEN_IN_THE_GUEST)]
        return _outcomes(
            [
                *(str(tool), "--topology", topology, "--timeout", str(SECONDS), *options),
                *(word for path in binds for word in ("--bind", str(path))),
                *("--env", f"PYTHONPATH={REPOSITORY}", "--env", "PYTHONDONTWRITEBYTECODE=1"),
                *("--", python, str(HERE / "session.py"), json.dumps(words)),
            ]
        )

    return run


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
