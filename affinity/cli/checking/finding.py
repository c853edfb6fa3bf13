"""A single result of a check, and all results as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from affinity.cli.layout import paragraph

Level: TypeAlias = Literal["ok", "note", "warn", "fail"]
"""note: worth knowing; warn: slower than necessary; fail: placement does not work."""

_MARKS: dict[Level, str] = {"ok": "ok  ", "note": "note", "warn": "WARN", "fail": "FAIL"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One subject, its state, and the remedy where something is wrong."""

    level: Level
    subject: str
    text: str
    way_out: str = ""


def show_findings(findings: Sequence[Finding]) -> str:
    """One paragraph for each finding, and a verdict."""
    width = max(len(finding.subject) for finding in findings)
    lines = [
        paragraph(
            f"{finding.text}{f'; {finding.way_out}' if finding.way_out else ''}",
            f"{_MARKS[finding.level]}  {finding.subject:<{width}}  ",
        )
        for finding in findings
    ]
    return "\n".join((*lines, "", _verdict(findings)))


def exit_status(findings: Sequence[Finding]) -> int:
    """1 if anything failed, else 0."""
    return int(any(finding.level == "fail" for finding in findings))


def _verdict(findings: Sequence[Finding]) -> str:
    counts = {
        level: sum(finding.level == level for finding in findings) for level in ("fail", "warn")
    }
    if counts["fail"]:
        return f"{counts['fail']} wrong, {counts['warn']} to look at"
    return f"nothing wrong, {counts['warn']} to look at" if counts["warn"] else "all is well"
