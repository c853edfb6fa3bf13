"""The check of a machine with a GPU: what it runs, and what becomes of parts that fail."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import time
from contextlib import suppress
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
    parts = list(check.parts(tmp_path, "cuda", "cuda"))
    assert [part.name for part in parts] == [
        "tests",
        "resnet-50, batch 64, torch",
        "resnet-50, batch 256, torch",
        "googlenet, batch 64, torch",
        "googlenet, batch 256, torch",
        "training",
        "resnet-50, batch 64, compiled",
        "googlenet, batch 64, compiled",
    ]
    assert any("torch-graph" in word for part in parts for word in part.words)
    elsewhere = check.parts(tmp_path, "xpu", "xpu")
    assert not any("torch-graph" in word for part in elsewhere for word in part.words)
    for part in parts[1:]:
        # Without a device a part ends before it starts anything.
        words = [word.replace("cuda", "quantum") for word in part.words]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 2, done.stderr
        assert "quantum" in done.stderr + done.stdout
    config = ROOT / "configs/sc17_imagenet_googlenet.toml"
    assert str(config) in parts[5].words
    assert load_config(config).network.name == "googlenet"


@pytest.mark.parametrize(
    ("code", "seconds", "outcome"),
    [
        ("open('r.json', 'w').write('{}')", 30, "done"),
        ("open('r.json', 'w').write('{')", 30, "failed: no report ("),
        ("pass", 30, "failed: no report ("),
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
    assert found["outcome"].startswith(outcome)
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


def test_tests_that_are_all_skipped_are_none(check: ModuleType, tmp_path: Path) -> None:
    for said, outcome in (("2 skipped", "failed: no test ran"), ("7 passed in 3 s", "done")):
        found = check.run(check.Part("tests", ("-c", f"print('{said}')"), 30), tmp_path, 30)
        assert found["outcome"] == outcome


def test_what_a_part_has_started_ends_with_it(check: ModuleType, tmp_path: Path) -> None:
    sleeps = "import time; time.sleep(60)"
    code = (
        f"import subprocess, sys; found = subprocess.Popen([sys.executable, '-c', '{sleeps}']);"
        f"print(found.pid, flush=True); {sleeps}"
    )
    found = check.run(check.Part("a part", ("-c", code), 1), tmp_path, 1)
    assert found["outcome"] == "stopped after 1 s"
    (pid,) = found["said"]
    limit = time.monotonic() + 30
    with suppress(FileNotFoundError):  # one that nobody has waited for yet is a zombie
        while ") Z " not in Path(f"/proc/{pid}/stat").read_text():
            assert time.monotonic() < limit
            time.sleep(0.01)


def test_the_host_is_no_device() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "unused", "--device", "cpu"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "gpu_check: --device cpu: PyTorch finds no accelerator\n"
