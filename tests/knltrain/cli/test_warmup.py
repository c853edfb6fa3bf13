"""The words of a warm-up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.config import RunConfig

Invoke = Callable[..., Result]


def test_a_warm_up_is_of_a_configuration_with_its_overrides(
    invoke: Invoke, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmup = pytest.importorskip("knltrain.launch.warmup")
    seen: list[RunConfig] = []

    def warm_up(config: RunConfig) -> object:
        seen.append(config)
        return warmup.WarmUp((), Path("/cache"), 1.0)

    monkeypatch.setattr(warmup, "warm_up", warm_up)
    shown = invoke("warmup", str(config_file), "--set", "workers=4")
    assert shown.output.endswith("1.0 s in all; kernel cache /cache\n")
    assert seen[0].workers == 4
