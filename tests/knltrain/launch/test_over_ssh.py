"""`knltrain launch --hosts` by ssh to real servers, on hosts of their own addresses and names."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..ssh_hosts import NAMES, UNUSED, SshHosts, ssh_hosts_or_skip

KNLTRAIN = (sys.executable, "-m", "knltrain")
ENDLESS = ("--set", "train.steps=100000000", "--set", "evaluation.every_epochs=0")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts_or_skip(tmp_path_factory.mktemp("ssh")) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, run_toml: str) -> Path:
    """One whose name a shell would take apart."""
    here = tmp_path / "it's $HOME; a folder"
    here.mkdir()
    (here / "run.toml").write_text(run_toml)
    return here


def launched(
    made: SshHosts,
    folder: Path,
    *words: str,
    hosts: str = ",".join(NAMES),
    via: str | None = None,
    key: str = "user_key",
) -> subprocess.Popen[str]:
    way = () if via is None else ("--via", via)
    return made.start(*KNLTRAIN, "launch", "--hosts", hosts, *way, *words, cwd=folder, key=key)


def training(*more: str) -> list[str]:
    chosen = ("placement.pin=false", "exchange.between_nodes=gloo", "train.batch=16")
    sets = (word for key in chosen for word in ("--set", key))
    return ["train", "run.toml", "--workers", "1", *sets, *more]


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_hosts_train_one_model(made: SshHosts, folder: Path) -> None:
    process = launched(made, folder, *training())
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    assert "Connection to" not in out + err
    assert not re.search("[0-9a-f]{64}", out + err), "the secret of the job is shown"
    assert "with 2 workers on 2 nodes, exchanging by gloo" in out
    assert json.loads((folder / "runs/run/result.json").read_text())["steps"] == 12
    assert (folder / "runs/run/checkpoint-12/worker-1.safetensors").exists()
    made.await_nothing()


def test_words_arrive_as_they_were_given(made: SshHosts, folder: Path) -> None:
    """Through the shell that reads them at the other end."""
    odd = """no "such" $HOME `file` 'of' ours*;\\.toml"""
    process = launched(
        made, folder, "train", odd, via=f"ssh -F {made.folder}/with_user_key {{host}}"
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out + err
    assert odd in " ".join((out + err).split())


def ends_launcher_alone(number: int) -> Callable[[subprocess.Popen[str]], None]:
    return lambda process: process.send_signal(number)


def ends_all_that_the_terminal_has(process: subprocess.Popen[str]) -> None:
    """As Ctrl-C does, whose signal ssh gets, too."""
    os.killpg(process.pid, signal.SIGINT)


def ends_all_that_a_scheduler_has(process: subprocess.Popen[str]) -> None:
    """As `timeout` does, too: the launcher, and then its group."""
    process.send_signal(signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(ends_launcher_alone(signal.SIGINT), 130, marks=pytest.mark.long),
        pytest.param(ends_launcher_alone(signal.SIGTERM), 75, marks=pytest.mark.long),
        (ends_launcher_alone(signal.SIGKILL), -9),
        (ends_all_that_the_terminal_has, 130),
        (ends_all_that_a_scheduler_has, 75),
    ],
    ids=["SIGINT", "SIGTERM", "SIGKILL", "Ctrl-C", "timeout"],
)
def test_launcher_that_ends_leaves_nothing_on_any_host(
    made: SshHosts, folder: Path, end: Callable[[subprocess.Popen[str]], None], status: int
) -> None:
    process = launched(made, folder, *training(*ENDLESS))
    try:
        _await_steps(folder, process)
        end(process)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    made.await_nothing()
    assert process.returncode == status, out + err


@pytest.mark.parametrize(
    ("hosts", "key", "missing", "said"),
    [
        pytest.param(
            f"alpha,{UNUSED}",
            "user_key",
            UNUSED,
            f"connect to host {UNUSED} port 22: No route to host",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "alpha,nowhere",
            "user_key",
            "nowhere",
            "Could not resolve hostname nowhere",
            marks=pytest.mark.slow,
        ),
        ("beta,alpha", "wrong_key", "beta|alpha|beta, alpha", "root@beta: Permission denied"),
    ],
    ids=["nobody at its address", "no address", "refused key"],
)
def test_host_that_lets_nobody_in_is_named(
    made: SshHosts, folder: Path, hosts: str, key: str, missing: str, said: str
) -> None:
    process = launched(made, folder, *training(), hosts=hosts, key=key)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    assert said in err
    assert re.search(f"error: ssh did not get to ({missing}), or", err), err
    made.await_nothing()


def _await_steps(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    metrics = folder / "runs/run/metrics-0.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
