"""Settings of a run, each with the field of Caffe's solver that it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from knltrain.interchange.caffe.message import Message


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the configuration ("train.steps"), its value, and where that comes from."""

    key: str
    value: Any
    origin: str


@final
@dataclass(slots=True)
class SolverSettings:
    """What a solver says: settings, what was dropped, and what cannot be kept."""

    solver: Message
    settings: list[Setting] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def put(self, key: str, value: Any, *fields: str, why: str = "") -> None:
        """Set a key from fields of the solver, those that are given and those with defaults."""
        told = ", ".join(self._origin(name) for name in fields)
        self.settings.append(Setting(key, value, "; ".join(filter(None, (told, why)))))

    def _origin(self, name: str) -> str:
        line = self.solver.line_of(name)
        return f"Caffe's default of {name}" if line is None else f"{name}, line {line}"

    def note(self, name: str, why: str) -> None:
        """Tell that a field was dropped, if it is given."""
        for each in self.solver.all(name):
            self.notes.append(f"{self.solver.place(each.line)}: {each.told} dropped: {why}")
