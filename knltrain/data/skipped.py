"""The broken pictures that this process has passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final


@final
class Skipped:
    """What is wrong with each broken picture, by its name; threads may add at once."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.reasons)

    def add(self, reasons: Mapping[str, str]) -> None:
        """Add pictures; those that are known already count once."""
        self.reasons.update(reasons)

    def __str__(self) -> str:
        many = "s were" if len(self) > 1 else " was"
        first = next(iter(self.reasons.values()), "")
        why = first.partition(": expected")[0]  # what to do about it is to skip it
        return f"{len(self):,} broken picture{many} skipped, such as {why}"


SKIPPED: Final = Skipped()
