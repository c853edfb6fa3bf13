"""A finding of the doctor: one check and its result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warn", "fail"]

_GRAVITY: tuple[Level, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact and what it means for training here.

    ``warn``: runs work, but slowly or not all kinds of them. ``fail``: runs will not work. Both
    come with a way out; a thing that is missing and that nothing needs is ``ok``.
    """

    subject: str
    level: Level
    text: str
    way_out: str = ""

    def __post_init__(self) -> None:
        if (self.level == "ok") is bool(self.way_out):
            raise ValueError(f"{self}: expected a way out for warn and fail, and none for ok")


def worst_level(findings: Iterable[Finding]) -> Level:
    """The gravest level among `findings`; ``ok`` if there are none."""
    return max((finding.level for finding in findings), key=_GRAVITY.index, default="ok")
