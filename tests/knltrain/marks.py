"""Which of many like tests run when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def by_cost(names: Iterable[str], *slow: str, quick: str = "") -> list[Any]:
    """Parameters of a test: one quick name, some `slow` ones; all others are `long`."""

    def marks(name: str) -> Any:
        if name == quick:
            return ()
        return pytest.mark.slow if name in slow else pytest.mark.long

    return [pytest.param(name, marks=marks(name)) for name in names]
