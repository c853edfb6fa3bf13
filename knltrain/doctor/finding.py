"""A finding of the doctor: one check and its result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warn", "fail"]

_GRAVITY: tuple[Level, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact and its effect on training here.

    - ``warn``: runs work, but slowly, or some kinds do not;
    - ``fail``: runs will not work;
    - ``ok``: also for something that is missing but not needed.

    ``warn`` and ``fail`` come with a remedy.
    """

    subject: str
    level: Level
    text: str
    way_out: str = ""

    def __post_init__(self) -> None:
        if (self.level == "ok") is bool(self.way_out):
            raise ValueError(f"{self}: expected a way out for warn and fail, and none for ok")


def worst_level(findings: Iterable[Finding]) -> Level:
    """The worst level among `findings`; ``ok`` if there are none."""
    return max((finding.level for finding in findings), key=_GRAVITY.index, default="ok")
