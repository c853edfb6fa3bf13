"""Tests that ask the kernel for real: they leave the thread's mask and memory policy as it was."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from affinity.errors import MemoryPolicyError
from affinity.process import kernel_call
from affinity.process.memory_policy import allowed_memories, memory_policy, set_memory_policy
from affinity.process.node_memory import free_huge_pages, huge_page_bytes, huge_page_pool

RunPython = Callable[..., str]
Refuse = Callable[..., None]
Filtered = Callable[..., subprocess.CompletedProcess[str]]

UNDER_A_FILTER = """
import ctypes, os, struct, sys

def instruction(code, jump_if, jump_else, value):
    return struct.pack("HBBI", code, jump_if, jump_else, value)

LOAD, EQUAL, RETURN, ALLOW, REFUSE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
code, modes, *calls = map(int, sys.argv[1].split(","))
program = b""
for call in calls:  # Offset 0 holds the call's number, 16 its first argument.
    if modes:
        program += instruction(LOAD, 0, 0, 0) + instruction(EQUAL, 0, 3, call)
        program += instruction(LOAD, 0, 0, 16) + instruction(EQUAL, 0, 1, modes)
    else:
        program += instruction(LOAD, 0, 0, 0) + instruction(EQUAL, 0, 1, call)
    program += instruction(RETURN, 0, 0, REFUSE | code)
program += instruction(RETURN, 0, 0, ALLOW)

buffer = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
wanted = Program(len(program) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(wanted), 0, 0):
    sys.exit(77)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(autouse=True)
def _mask_restored() -> Iterator[None]:
    mask = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, mask)


@pytest.fixture
def node() -> Iterator[int]:
    """A node whose memory this process may use, on a kernel that lets it say so."""
    try:
        before = memory_policy()
        set_memory_policy(*before)
    except MemoryPolicyError as error:
        pytest.skip(f"memory policies are forbidden here: {error}")
    yield allowed_memories()[0]
    set_memory_policy(*before)


@pytest.fixture
def run_python() -> RunPython:
    """Run a script in a new process, with `environment` on top, and give what it prints.

    A variable that is given as "" is not there for the script.
    """

    def run(script: str, *arguments: str, status: int = 0, **environment: str) -> str:
        command = [sys.executable, "-c", script, *arguments]
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={name: v for name, v in {**os.environ, **environment}.items() if v},
        )
        assert result.returncode == status, result.stderr
        return result.stdout

    return run


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Let the kernel refuse a call with this error, or only in modes with these numbers."""

    def arrange(name: str, code: int, modes: tuple[int, ...] | None = None) -> None:
        ask = kernel_call.kernel_call
        position = {"set_mempolicy": 0, "mbind": 2}.get(name, 0)

        def answer(call: str, *arguments: kernel_call.Argument) -> int:
            if call == name and (modes is None or arguments[position] in modes):
                raise OSError(code, os.strerror(code))
            return ask(call, *arguments)

        monkeypatch.setattr(kernel_call, "kernel_call", answer)

    return arrange


@pytest.fixture
def under_a_filter() -> Filtered:
    """Run a command for which a container's filter refuses the calls with these numbers.

    With `first` only where that is a call's first argument.
    """

    def run(
        command: Sequence[str], code: int, calls: Sequence[int], first: int = 0
    ) -> subprocess.CompletedProcess[str]:
        listed = ",".join(map(str, [code, first, *calls]))
        result = subprocess.run(
            [sys.executable, "-c", UNDER_A_FILTER, listed, *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if result.returncode == 77:
            pytest.skip("this kernel filters no system calls")
        return result

    return run


@pytest.fixture
def old_kernel(refuse: Refuse) -> None:
    """A kernel before 5.15: it knows neither preferred-many nor weighted-interleave."""
    for name in ("set_mempolicy", "mbind"):
        refuse(name, errno.EINVAL, (5, 6))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write one kernel file under `tmp_path`, with the newline that the kernel ends it with."""

    def write_file(path: str, text: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
        return file

    return write_file


@pytest.fixture
def huge_pages(node: int, set_aside: Callable[[Path, int], None]) -> int:
    """Bytes of a huge page, four of which are set aside on `node` for the test."""
    set_aside(huge_page_pool(node), 4)
    if free_huge_pages(node) < 4:
        pytest.skip("this machine has no four huge pages to set aside")
    return huge_page_bytes()
