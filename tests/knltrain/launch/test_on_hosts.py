"""`knltrain launch`: the command on each host, and how it ends; the hosts are this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knltrain.errors import ConfigError, RunAborted
from knltrain.launch import on_hosts, signals
from knltrain.launch.on_hosts import _TaskOnHost, launch
from knltrain.launch.signals import SignalPipe
from knltrain.launch.spoken_line import SpokenLine

ROOT = Path(__file__).parents[3]
HERE = "env HOST={host}"
"""How one gets to these hosts: by staying."""


def tasks(tmp_path: Path, program: str, *words: str, via: str = HERE) -> subprocess.Popen[str]:
    """Launch on hosts a and b, with a knltrain of these tests in place of the real one."""
    package = tmp_path / "knltrain"
    package.mkdir()
    (package / "__init__.py").write_text(OF_THE_REAL_ONE)
    (package / "__main__.py").write_text(program)
    caller = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from knltrain.launch.on_hosts import launch\n"
        "sys.exit(launch(['a', 'b'], sys.argv[3:], sys.argv[2]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", caller, str(ROOT), via, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


OF_THE_REAL_ONE = """
import os
__path__.append(os.environ["PYTHONPATH"] + "/knltrain")
"""
"""The package of these tests has all but its command from the real one."""

TELLS = """
import json, os, sys
own = {k: v for k, v in os.environ.items() if k.startswith("KNLTRAIN_TASK_") or k == "HOST"}
print(json.dumps([sys.argv[1:], os.getcwd(), own]), flush=True)
"""
SECRETS = """
import json, os, sys
from pathlib import Path
from knltrain.cluster.job_secret import JobSecret
from knltrain.cluster.task import Task
key = JobSecret(Task("t", 1, 2, 0, 1, "1", "j"), Path("/nowhere")).found().hex()
shown = [Path(f"/proc/self/{name}").read_text() for name in ("cmdline", "environ")]
print(json.dumps([key, shown]), flush=True)
"""
FAILS = """
import os, sys, time
if os.environ["HOST"] == "b":
    sys.exit(3)
time.sleep(0.3)
"""
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("here", flush=True)
time.sleep(1000)
"""


def test_each_host_runs_the_words_as_a_task_of_one_launch(tmp_path: Path) -> None:
    out, err = tasks(tmp_path, TELLS, "train", "a b.toml", "--set", "x=1").communicate(timeout=60)
    first = json.loads(out)
    other = json.loads(err.removeprefix("b: "))
    for words, folder, own in (first, other):
        assert words == ["train", "a b.toml", "--set", "x=1"]
        assert folder == str(tmp_path)
        assert own["KNLTRAIN_TASK_COUNT"] == "2"
        assert own["KNLTRAIN_TASK_FIRST_HOST"] == "a"
    assert first[2]["KNLTRAIN_TASK_JOB"] == other[2]["KNLTRAIN_TASK_JOB"]
    assert (first[2]["HOST"], first[2]["KNLTRAIN_TASK_RANK"]) == ("a", "0")
    assert (other[2]["HOST"], other[2]["KNLTRAIN_TASK_RANK"]) == ("b", "1")


def test_all_hosts_get_one_secret_that_is_in_no_argument_nor_variable(tmp_path: Path) -> None:
    process = tasks(tmp_path, SECRETS, "train")
    out, err = process.communicate(timeout=60)
    (key, shown), (other, _) = json.loads(out), json.loads(err.removeprefix("b: "))
    assert key == other
    assert "KNLTRAIN_TASK_SECRET=stdin" in shown[1].split("\0")
    assert not re.search("[0-9a-f]{64}", " ".join(shown))


def test_status_is_that_of_the_first_task_that_fails(tmp_path: Path) -> None:
    process = tasks(tmp_path, FAILS, "train")
    process.communicate(timeout=60)
    assert process.returncode == 3


ASKED = """
import os, signal, sys, time
def asked(number, _):
    signal.signal(number, signal.SIG_IGN)  # each of two hosts that are one gets that of both
    if os.environ["HOST"] == "a":
        time.sleep(0.5)
    print(f"asked by {number}", flush=True)
    sys.exit(75)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, asked)
signal.signal(signal.SIGUSR2, lambda *_: print("kept", flush=True))
print("here", flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_that_ask_for_something_go_to_all_hosts_which_then_end_by_themselves(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = tasks(tmp_path, ASKED, "train")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "here\n"
    assert process.stderr.readline() == "b: here\n"
    process.send_signal(signal.SIGUSR2)
    assert process.stdout.readline() == "kept\n"
    assert process.stderr.readline() == "b: kept\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (out, err) == (f"asked by {number}\n", f"b: asked by {number}\n")
    assert process.returncode == 75


LIKE_SSH = """#!/bin/sh
# Ends by a signal, with a status of its own, and what it runs then hangs up.
case "$2" in *pass_on*) eval "exec $2" ;; esac
trap 'exit 255' TERM
eval "setsid setpriv --pdeathsig HUP $2 &"
wait $!
"""


def test_signal_to_the_group_of_the_launcher_is_passed_on_as_one_to_itself(tmp_path: Path) -> None:
    """`timeout` and schedulers send it there; ssh would end by it, and what it runs."""
    ssh = tmp_path / "ssh"
    ssh.write_text(LIKE_SSH)
    ssh.chmod(0o755)
    process = tasks(
        tmp_path, ASKED.replace('["HOST"]', '["KNLTRAIN_TASK_RANK"]'), via=f"{ssh} {{host}}"
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "here\n"
    assert process.stderr.readline() == "b: here\n"
    os.killpg(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert "asked by 15\n" in out
    assert "b: asked by 15\n" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_that_comes_twice_at_once_counts_once_but_not_if_it_was_typed(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "ECHO_SECONDS", 60)
    passed = []

    def pass_on(number: signal.Signals) -> None:
        passed.append(number)
        signal.raise_signal(number)

    with SignalPipe() as pipe, SpokenLine("") as said:
        task = _TaskOnHost("a", ["sh", "-c", "trap '' INT; sleep 1; exit 75"], 0, said)
        signal.raise_signal(number)
        if number == signal.SIGINT:
            with pytest.raises(RunAborted, match="stopped by SIGINT"):
                on_hosts._watch([task], pipe, pass_on)
        else:
            assert on_hosts._watch([task], pipe, pass_on) == 75
        assert task.await_end(time.monotonic() + 60)
    assert passed == [number]


def test_second_signal_is_not_waited_for(tmp_path: Path) -> None:
    process = tasks(tmp_path, STUBBORN.replace("SIGINT", "SIGTERM"), "train")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "here\n"
    assert process.stderr.readline() == "b: here\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "RunAborted: stopped by SIGINT" in err


def test_last_words_of_a_host_are_told_before_the_end(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "if os.environ['HOST'] == 'b': sys.exit('\\n'.join(f'line {n}' for n in range(5000)))\n"
        "time.sleep(0.3)"
    )
    process = tasks(tmp_path, program, "train")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.endswith("b: line 4999\n")


def test_task_that_a_signal_ends_has_a_shells_status(tmp_path: Path) -> None:
    program = "import os\nif os.environ['HOST'] == 'b': os.kill(os.getpid(), 9)"
    process = tasks(tmp_path, program, "train")
    process.communicate(timeout=60)
    assert process.returncode == 137


def test_tasks_that_do_not_end_with_the_launcher_are_killed(tmp_path: Path) -> None:
    process = tasks(tmp_path, STUBBORN, "train")
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 10
    while _left(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.communicate()


def _left(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("via", ["ssh -tt {host}", "/usr/bin/ssh {host}", "timeout 9 ssh {host}"])
def test_what_a_shell_reads_at_the_other_end_is_quoted(via: str) -> None:
    command = on_hosts._command("n1", via, ["train", "a b.toml"], ["X=1"])
    assert command[-2] == "n1"
    assert command[-1].startswith(
        f"env --chdir={Path.cwd()} X=1 TERM=dumb {sys.executable} -m knltrain"
    )
    assert command[-1].endswith("train 'a b.toml'")


@pytest.mark.parametrize(
    ("host", "address", "first"),
    [("n1", None, "n1"), ("me@n1", None, "n1"), ("me@n1", "10.0.0.1", "10.0.0.1")],
)
def test_others_reach_the_first_host_at_its_name_or_the_address_that_is_given(
    host: str, address: str | None, first: str
) -> None:
    """A name to log in by, which ssh takes, is none of its name in the network."""
    assert f"KNLTRAIN_TASK_FIRST_HOST={first}" in on_hosts._own(1, [host, "n2"], "j", address)


def test_hosts_that_are_the_same_are_refused() -> None:
    with pytest.raises(ConfigError, match="--hosts names 'a' twice: expected each"):
        launch(["a", "a"], ["train"])


def test_way_without_a_host_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--via 'ssh': expected a command with \{host\} in it"):
        launch(["a", "b"], ["train"], "ssh")
