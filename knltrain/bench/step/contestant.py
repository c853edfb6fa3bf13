"""An implementation under measurement: one process, or several that work at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from knltrain.bench.step.peer_process import PeerProcess


@final
class Contestant:
    """The processes of one implementation, a worker each; they exchange nothing."""

    def __init__(self, name: str, processes: Sequence[PeerProcess]) -> None:
        self.name = name
        self._processes = processes

    @property
    def ready(self) -> dict[str, Any]:
        """The first process's report: its version and the loss of its first step."""
        return self._processes[0].ready

    @property
    def peak_bytes(self) -> int:
        """Peak memory of its processes until now, each at its own maximum, summed."""
        return sum(process.peak_bytes for process in self._processes)

    def wait_ready(self) -> None:
        """Return when every process is warm."""
        for process in self._processes:
            process.wait_ready()

    def steps_per_second(self, seconds: float) -> float:
        """Let all processes work for about so long; return the sum of their speeds."""
        for process in self._processes:
            process.ask(seconds)
        answers = [process.answer() for process in self._processes]
        return sum(float(answer["steps"] / answer["seconds"]) for answer in answers)
