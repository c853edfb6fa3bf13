from __future__ import annotations

from typing import Any


def test_compiled_models_train_as_others(common: Any) -> None:
    for compiled, plain in (one["compiled"] for one in common):
        assert compiled == plain
