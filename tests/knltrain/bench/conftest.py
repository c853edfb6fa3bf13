"""What tests of several benchmarks need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures that were written, in order."""
    from matplotlib.figure import Figure

    figures, save = list[Figure](), Figure.savefig

    def save_and_keep(self: Figure, path: Path, **options: Any) -> None:
        figures.append(self)
        save(self, path, **options)

    monkeypatch.setattr(Figure, "savefig", save_and_keep)
    return figures
