"""The words of a warm-up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.config import RunConfig
from vectorized_ops.numba.compiling.journal import MadeKernel, Progress

Invoke = Callable[..., Result]


def test_a_warm_up_is_of_a_configuration_with_its_overrides(
    invoke: Invoke, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmup = pytest.importorskip("knltrain.launch.warmup")
    seen: list[RunConfig] = []

    def warm_up(config: RunConfig, tell: Callable[[Progress], None]) -> object:
        seen.append(config)
        kernel = MadeKernel("fill", "()", compiled=True, seconds=0.5)
        tell(Progress(kernel, 1, 2, 3.0))
        return warmup.WarmUp((kernel,), Path("/cache"), 1.0, "tuning: nothing")

    monkeypatch.setattr(warmup, "warm_up", warm_up)
    shown = invoke("warmup", str(config_file), "--set", "workers=4")
    assert shown.output.splitlines() == [
        "compiling kernels 1/2  1 to go, about 3 s",
        "tuning: nothing",
        "kernels: 1 compiled in 0.5 s, 0 loaded in 0.0 s; 1.0 s in all; kernel cache /cache",
    ]
    assert seen[0].workers == 4
    shown = invoke("warmup", str(config_file), "--explain")
    assert "       1     0.50     0.50  fill" in shown.output.splitlines()
