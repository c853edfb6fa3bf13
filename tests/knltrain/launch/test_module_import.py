"""Modules that a process of its own imports, and runs that go on without their files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from knltrain.config import RunConfig, load_config
from knltrain.errors import ConfigError, DataError, NetworkError, RunFolderError
from knltrain.launch.importing_process import WEIGHTS
from knltrain.launch.module_import import ModuleImport, module_import

Start = Callable[..., subprocess.Popen[str]]

OWN = """
import os, signal, sys, time
from torch import nn

print("printed by its own code")

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.fc = nn.Linear(6 * 26 * 26, 10)
    def forward(self, x):
        return self.fc(self.conv(x).relu().flatten(1))

def build():
    return Own()

def killed():
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)

def elsewhere():
    os.chdir("/")
    return Own()

def endless():
    open("begun", "w").close()
    time.sleep(600)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_toml: str) -> Path:
    """A folder with a run and a module; temporary files are in its folder `tmp`."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "run.toml").write_text(run_toml)
    return tmp_path


def config(own: Path, function: str, *overrides: str) -> RunConfig:
    return load_config(own / "run.toml", (f"network.module={own}/own.py:{function}", *overrides))


def test_a_run_without_a_module_goes_on_as_it_is(own: Path) -> None:
    lines: list[str] = []
    chosen = load_config(own / "run.toml")
    with module_import(chosen, lines.append) as found:
        assert found.config == chosen
        assert found.kept_in(own, chosen) == chosen
    assert lines == []


@pytest.mark.slow
def test_a_module_becomes_a_described_network(own: Path) -> None:
    lines: list[str] = []
    with module_import(config(own, "build"), lines.append) as found:
        network = found.config.network
        assert json.loads(Path(network.name).read_text())["name"] == "Own"
        assert (network.module, network.weights, network.new_layers) == (None, None, ())
        kept = found.kept_in(own, found.config).network.weights
        with pytest.raises(RunFolderError, match=r"write '/sys/kernel/start.safetensors'"):
            found.kept_in(Path("/sys/kernel"), found.config)
    assert kept == str(own / "start.safetensors")
    assert set(load_file(kept)) == {"conv.weights", "conv.bias", "fc.weights", "fc.bias"}
    assert (own / "module.log").read_text() == "printed by its own code\n"
    assert lines == [f"importing {own}/own.py:build"]
    assert list((own / "tmp").iterdir()) == []


@pytest.mark.slow
def test_weights_are_found_from_where_the_run_is_started(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own)
    with module_import(config(own, "build"), print) as found:
        found.kept_in(own, found.config)
    given = "network.weights=start.safetensors"
    with module_import(config(own, "elsewhere", given, "seed=2"), print) as found:
        assert found.folder is not None
        assert (found.folder / WEIGHTS).read_bytes() == (own / WEIGHTS).read_bytes()


@pytest.mark.parametrize(
    ("overrides", "error", "said"),
    [
        (("optimizer.name=sgdd",), ConfigError, "unknown optimizer.name 'sgdd'"),
        (("data.name=mnist", "data.root=/none"), DataError, "/none"),
    ],
)
def test_what_a_run_lacks_is_told_before_the_import(
    own: Path, overrides: tuple[str, ...], error: type[Exception], said: str
) -> None:
    lines: list[str] = []
    with (
        pytest.raises(error, match=said),
        module_import(config(own, "build", *overrides), lines.append),
    ):
        pass
    assert lines == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        ("nothing", ConfigError, "unknown function 'nothing'"),
        ("killed", NetworkError, r"has ended with SIGKILL.*:\nprinted by its own code$"),
    ],
)
def test_its_error_is_that_of_the_run(
    own: Path, function: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said), module_import(config(own, function), print):
        pass
    assert list((own / "tmp").iterdir()) == []


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _importers() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"importing_process" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_import_leaves_nothing(
    own: Path, number: signal.Signals, start_knltrain: Start
) -> None:
    before = set(_importers())
    process = start_knltrain("train", "run.toml", "--set", "network.module=own.py:endless", cwd=own)
    _await((own / "begun").exists)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert process.returncode == -9
    else:
        assert process.returncode == 128 + number
        assert err == f"error: stopped by {number.name}\n"
    _await(lambda: set(_importers()) <= before)
    _await(lambda: not list((own / "tmp").iterdir()))
    assert not (own / "runs").exists()


def _finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return out


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_a_run_is_resumed_and_evaluated_without_the_modules_file(
    own: Path, start_knltrain: Start
) -> None:
    words = ("--set", "network.module=own.py:build")
    assert "compiled" in _finish(start_knltrain("warmup", "run.toml", *words, cwd=own))
    out = _finish(start_knltrain("train", "run.toml", *words, cwd=own))
    assert out.startswith("importing own.py:build\ntraining Own on digits")
    assert "torch" not in (own / "runs/run/worker-0.log").read_text()
    (own / "own.py").unlink()
    result = json.loads((own / "runs/run/result.json").read_text())
    found = json.loads(_finish(start_knltrain("evaluate", "runs/run", "--json", cwd=own)))
    assert (result["network"], found["accuracy"]) == ("Own", result["test_accuracy"])
    _finish(start_knltrain("train", "runs/run/config.toml", "--name", "again", cwd=own))
    again = json.loads((own / "runs/again/result.json").read_text())
    assert again["test_accuracy"] == result["test_accuracy"]
    more = ("--set", "train.epochs=3")
    _finish(start_knltrain("train", "--resume", "runs/run", *more, cwd=own))


@pytest.mark.slow
def test_workers_do_not_load_torch(own: Path) -> None:
    code = (
        "import sys\n"
        "from knltrain.launch import entry, module_import, training\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), timeout=60)


def test_nothing_is_kept_of_what_was_not_imported(own: Path) -> None:
    chosen = load_config(own / "run.toml")
    assert ModuleImport(chosen).kept_in(own, chosen) is chosen
    assert sorted(each.name for each in own.iterdir()) == ["own.py", "run.toml", "tmp"]
