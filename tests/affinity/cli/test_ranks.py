from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Protocol

import pytest

from affinity.process.other_process import children

pytestmark = pytest.mark.usefixtures("two_cores")


class Start(Protocol):
    def __call__(self, *words: str) -> subprocess.Popen[str]: ...

    def alive(self) -> dict[int, str]: ...

    def all_gone(self) -> bool: ...


def _run(start: Start, script: str, *options: str) -> subprocess.Popen[str]:
    """Two ranks, each a shell with `script`."""
    words = ("-m", "affinity", "run", "--workers", "2", *options, "--", "sh", "-c", script)
    return start(*words)


def _lines(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    return sorted(process.stdout.readline() for _ in range(number))


def _end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    told, error = process.communicate(timeout=60)
    return process.returncode, told, error


def test_all_ranks_that_end_well_end_the_run_well(start: Start) -> None:
    status, told, error = _end(_run(start, "echo rank {rank} of {workers}"))
    assert (status, sorted(told.splitlines()), error) == (0, ["rank 0 of 2", "rank 1 of 2"], "")
    assert start.all_gone()


def test_first_failure_ends_the_others_with_its_status(start: Start) -> None:
    status, _, error = _end(_run(start, "test {rank} = 0 || exit 5; exec sleep 600"))
    assert status == 5
    assert error == "affinity run: rank 1 ended with status 5; ending the others\n"
    assert start.all_gone()


@pytest.mark.slow
def test_rank_that_does_not_end_is_killed_after_its_grace(start: Start) -> None:
    script = (
        "trap '' TERM; test {rank} = 0 || { sleep 1; exit 5; }; echo; while :; do sleep 600; done"
    )
    status, _, error = _end(_run(start, script, "--grace-seconds", "0.2"))
    assert status == 5
    assert "affinity run: still there after 0.2 s, so killed: rank 0\n" in error
    assert start.all_gone()


def test_kill_by_the_kernel_is_explained(start: Start) -> None:
    status, _, error = _end(_run(start, "test {rank} = 0 || kill -9 $$; exec sleep 600"))
    assert status == 137
    assert error.startswith("affinity run: rank 1 was ended by SIGKILL (the kernel does that when")
    assert "bound" not in error


def test_kill_of_a_rank_that_is_bound_to_its_memory_names_what_may_have_been(
    start: Start,
) -> None:
    script = "test {rank} = 0 || kill -9 $$; exec sleep 600"
    status, _, error = _end(_run(start, script, "--policy", "strict"))
    assert status == 137
    [line] = [line for line in error.splitlines() if "SIGKILL" in line]
    assert line.startswith(
        "affinity run: rank 1 was ended by SIGKILL (its memory is bound to node "
    )
    assert "it may have needed more than there is: the kernel kills a process for that" in line
    assert "--policy spill lets the rest go elsewhere" in line
    assert "--need NAME=SIZE has it refused beforehand" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_all_ranks_in_their_own_way(number: signal.Signals, start: Start) -> None:
    script = "trap 'echo bye {rank}; exit 0' TERM INT; echo ready; while :; do sleep 0.05; done"
    process = _run(start, script)
    assert _lines(process, 2) == ["ready\n", "ready\n"]
    process.send_signal(number)
    status, told, _ = _end(process)
    assert (status, sorted(told.splitlines())) == (128 + number, ["bye 0", "bye 1"])
    assert start.all_gone()


def test_second_signal_kills_at_once(start: Start) -> None:
    script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    process = _run(start, script, "--grace-seconds", "600")
    assert _lines(process, 2) == ["ready\n", "ready\n"]
    process.terminate()
    assert _lines(process, 2) == ["asked\n", "asked\n"]
    process.terminate()
    assert _end(process)[0] == 143
    assert start.all_gone()


def test_signals_of_the_user_are_passed_on_and_end_nothing(start: Start) -> None:
    script = "trap 'echo told {rank}; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    process = _run(start, script)
    assert _lines(process, 2) == ["ready\n", "ready\n"]
    process.send_signal(signal.SIGUSR1)
    status, told, error = _end(process)
    assert (status, sorted(told.splitlines()), error) == (0, ["told 0", "told 1"], "")


def test_nothing_is_left_when_run_is_killed(start: Start) -> None:
    process = _run(start, "setsid sleep 600 & sleep 600 & echo ready; wait")
    assert _lines(process, 2) == ["ready\n", "ready\n"]
    assert start.all_there(8)
    process.kill()
    assert start.all_gone()


def test_nothing_is_left_when_the_keeper_of_the_ranks_is_killed(start: Start) -> None:
    process = _run(start, "setsid sleep 600 & sleep 600 & echo ready; wait")
    assert _lines(process, 2) == ["ready\n", "ready\n"]
    (keeper,) = children(process.pid)
    os.kill(keeper, signal.SIGKILL)
    assert process.wait(timeout=60) == 137
    assert start.all_gone()


def test_what_ranks_leave_in_the_background_ends_with_them(start: Start) -> None:
    status, _, _ = _end(_run(start, "setsid sleep 600 > /dev/null 2>&1 & exit 0"))
    assert status == 0
    assert start.all_gone()


def test_first_rank_alone_reads_what_is_typed(start: Start) -> None:
    process = _run(start, "read line || line=nothing; echo {rank} $line")
    told, _ = process.communicate("hello\nworld\n", timeout=60)
    assert sorted(told.splitlines()) == ["0 hello", "1 nothing"]


def test_tagged_lines_say_whose_they_are_and_keep_their_stream(start: Start) -> None:
    script = "echo out; echo err >&2; printf 'no end'"
    status, told, error = _end(_run(start, script, "--tag"))
    assert status == 0
    assert sorted(told.splitlines()) == ["[0] no end", "[0] out", "[1] no end", "[1] out"]
    assert sorted(error.splitlines()) == ["[0] err", "[1] err"]


def test_long_tagged_output_arrives_whole(start: Start) -> None:
    status, told, _ = _end(_run(start, "seq 20000", "--tag"))
    assert status == 0
    lines = told.splitlines()
    for rank in (0, 1):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] {number}" for number in range(1, 20001)]


def test_reader_that_leaves_ends_tagged_ranks(start: Start) -> None:
    process = _run(start, "while :; do echo more; sleep 0.01; done", "--tag")
    assert len(_lines(process, 2)) == 2
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert start.all_gone()


def test_run_answers_to_the_end_of_its_ranks_without_polling(start: Start) -> None:
    process = _run(start, "echo ready; exec sleep 600")
    assert _lines(process, 2) == ["ready\n", "ready\n"]
    (keeper,) = children(process.pid)
    status = Path(f"/proc/{keeper}/status")
    time.sleep(0.2)
    before = _switches(status)
    time.sleep(0.5)
    assert _switches(status) == before
    process.terminate()


def _switches(status: Path) -> str:
    lines = status.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("voluntary_ctxt_switches"))
