"""What a run that has come to its end must have left, by the names it is told of."""

from __future__ import annotations

from typing import Final

CHECKPOINT: Final = "checkpoint"
RESULT: Final = "result.json"
