"""`import knltrain`: its names, where they are said, and a run by them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import knltrain

ROOT = Path(__file__).parents[2]

OWN_MODULE = """
from torch import nn

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 13 * 13, 10)
    def forward(self, images):
        return self.fc(self.norm(self.conv(images)).relu().flatten(1))

def build():
    return Mine()
"""

RUN = """
import json, sys, threading
from pathlib import Path

import knltrain

config = knltrain.load_config(sys.argv[1], ["train.epochs=1", f"runs_folder={sys.argv[2]}"])
events = []
"""


def run(code: str, tmp_path: Path, toml: str) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "config.toml"
    config.write_text(toml)
    return subprocess.run(
        [sys.executable, "-c", RUN + code, str(config), str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )


def test_every_name_is_there_and_told() -> None:
    for name in knltrain.__all__:
        assert getattr(knltrain, name) is not None
        assert name in dir(knltrain)


def test_other_names_are_refused() -> None:
    missing: Any = knltrain
    with pytest.raises(AttributeError, match="'knltrain' has no attribute 'trian'"):
        _ = missing.trian


def test_type_checkers_are_told_the_same_names() -> None:
    tree = ast.parse((ROOT / "knltrain" / "__init__.pyi").read_text())
    told = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == knltrain._HOMES


def test_documentation_has_every_name_and_no_other() -> None:
    named = re.findall(r"`knltrain\.(\w+)", (ROOT / "docs" / "api.md").read_text())
    assert set(named) == set(knltrain.__all__)


@pytest.mark.slow
def test_run_is_started_and_followed(tmp_path: Path, run_toml: str) -> None:
    code = """
folder = knltrain.train(config, follow=events.append)
result, evaluated = knltrain.read_result(folder), knltrain.evaluate(str(folder))
steps = [event["step"] for event in events if event["event"] == "progress"]
print(json.dumps([sorted({event["event"] for event in events}), steps[-1], result["steps"]]))
assert evaluated.found.accuracy == result["test_accuracy"]
assert any("run folder" in event["text"] for event in events if event["event"] == "note")
"""
    done = run(code, tmp_path, run_toml)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    kinds, last, steps = ast.literal_eval(line)
    assert last == steps
    assert {"evaluation", "note", "progress"} <= set(kinds)


@pytest.mark.slow
def test_users_module_comes_back_from_its_run(tmp_path: Path, run_toml: str) -> None:
    (tmp_path / "mine.py").write_text(OWN_MODULE)
    code = """
sys.path.insert(0, str(Path(sys.argv[1]).parent))
import torch
from mine import Mine, build

overrides = [f"network.module={Path(sys.argv[1]).parent}/mine.py:build"]
config = knltrain.load_config(sys.argv[1], [*overrides, f"runs_folder={sys.argv[2]}"])
folder = knltrain.train(config, follow=events.append)
imported = knltrain.from_torch(build(), torch.randn(1, 1, 28, 28))
(center,) = sorted(folder.glob("checkpoint-*/center.safetensors"))[-1:]
assert knltrain.load_weights(imported.parameters, center) == ()
trained = imported.to_torch()
torch.save(trained.state_dict(), folder / "trained.pt")
again = Mine()
again.load_state_dict(torch.load(folder / "trained.pt"), strict=True)
moved = (again.norm.running_mean - build().norm.running_mean).abs().max() > 0
print(type(trained) is Mine, bool(moved), int(again.norm.num_batches_tracked))
"""
    done = run(code, tmp_path, run_toml)
    assert (done.stdout.splitlines()[-1:], done.stderr) == (["True True 0"], "")


@pytest.mark.slow
def test_what_follows_may_end_the_run(tmp_path: Path, run_toml: str) -> None:
    code = """
def follow(event):
    if event["event"] == "progress":
        raise ZeroDivisionError("enough")

try:
    knltrain.train(config, follow=follow)
except ZeroDivisionError as error:
    print(error)
children = open(f"/proc/self/task/{threading.get_native_id()}/children").read()
print(repr(children))
"""
    done = run(code, tmp_path, run_toml)
    assert (done.stdout.splitlines(), done.stderr) == (["enough", "''"], "")


def test_runs_are_for_the_main_thread(tmp_path: Path, run_toml: str) -> None:
    code = """
def start():
    try:
        knltrain.train(config)
    except knltrain.KnltrainError as error:
        print(error)

thread = threading.Thread(target=start, name="other")
thread.start()
thread.join()
"""
    done = run(code, tmp_path, run_toml)
    assert "started by thread 'other': expected the main thread" in done.stdout
    assert not (tmp_path / "runs").exists()
