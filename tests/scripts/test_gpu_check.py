"""The check of a machine with a GPU: what it runs, and what becomes of parts that fail."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from knltrain.config import load_config

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/gpu_check"
STEP = {
    "rows": [
        {"implementation": "cuda:0", "images_per_second": 2500.4, "ours_to_it": 1.0},
        {"implementation": "torch-graph", "images_per_second": 2400.0, "ours_to_it": 1.04},
    ]
}


@pytest.fixture
def check() -> ModuleType:
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    spec = importlib.util.spec_from_loader("gpu_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    loader.exec_module(module)
    return module


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_reason_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "out"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("gpu_check: --device = 'cuda': ")
    assert not (tmp_path / "out").exists()


def test_each_part_is_a_command_that_exists(check: ModuleType, tmp_path: Path) -> None:
    parts = list(check.parts(tmp_path, "cuda"))
    assert [part.name for part in parts] == [
        "tests",
        "resnet-50, batch 64",
        "resnet-50, batch 256",
        "googlenet, batch 64",
        "googlenet, batch 256",
        "training",
    ]
    assert sum(part.seconds for part in parts[1:2]) + parts[0].seconds < 600
    for part in parts[1:]:
        # Without a device a part ends before it starts anything.
        words = [word.replace("cuda", "quantum") for word in part.words]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 2, done.stderr
        assert "quantum" in done.stderr + done.stdout
    *_, settings = parts[-1].words
    assert load_config(ROOT / "configs/sc17_imagenet_googlenet.toml").network.name == "googlenet"
    assert settings == "exchange.method=sync_easgd3"


@pytest.mark.parametrize(
    ("code", "seconds", "outcome"),
    [
        ("open('r.json', 'w').write('{}')", 30, "done"),
        ("print('bad'); raise SystemExit(3)", 30, "failed with exit code 3"),
        ("import time; time.sleep(60)", 0.5, "stopped after 0 s"),
        ("", 0.0, "left out: no time"),
    ],
)
def test_every_end_of_a_part_is_told(
    check: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    seconds: float,
    outcome: str,
) -> None:
    monkeypatch.setattr(check, "HERE", tmp_path)
    part = check.Part("a part", ("-c", code), seconds, tmp_path / "r.json")
    found = check.run(part, tmp_path, seconds)
    assert found["outcome"] == outcome
    assert ("report" in found) is (outcome == "done")
    if "bad" in code:
        assert found["said"] == ["bad"]


def test_the_page_has_a_row_for_each(check: ModuleType, tmp_path: Path) -> None:
    found = {
        "device": {"device": "cuda:0", "model": "H200", "torch": "2.13.0"},
        "parts": {
            "tests": {"outcome": "failed with exit code 1", "seconds": 61.2},
            "resnet-50, batch 64": {"outcome": "done", "seconds": 80.0, "report": STEP},
            "training": {
                "outcome": "done",
                "seconds": 20.0,
                "report": {"images_per_second": 1800.0, "exchange_share": 0.021},
            },
        },
    }
    check.tell(tmp_path, found)
    lines = (tmp_path / "gpu_check.md").read_text().splitlines()
    assert lines[0] == "# H200, torch 2.13.0"
    assert "| tests | failed with exit code 1 | 61 |" in lines
    assert "| resnet-50, batch 64 | torch-graph | 2,400 | 1.04 |" in lines
    assert "| 1,800 | 2.1 |" in lines
    assert json.loads((tmp_path / "gpu_check.json").read_text()) == found
