"""What a container's filter of system calls and an old kernel do, done to real processes."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys

import pytest

from affinity.exec import pinned_command
from affinity.placement.plan import MemoryPlan
from affinity.process.kernel_call import CALL_NUMBERS

pytestmark = pytest.mark.skipif(
    platform.machine() not in CALL_NUMBERS, reason="unknown numbers of system calls"
)

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

SHOW = (
    "import json\n"
    "from affinity.process.allowed import read_allowed\n"
    "from affinity.process.proof import observed_binding\n"
    "print(json.dumps([observed_binding()['memory_policy'], read_allowed(environment={}).notes]))"
)


def _run(
    memory: MemoryPlan, code: int, calls: tuple[str, ...], mode: int = 0
) -> subprocess.CompletedProcess[str]:
    numbers = [CALL_NUMBERS[platform.machine()][call] for call in calls]
    command = pinned_command([sys.executable, "-c", SHOW], os.sched_getaffinity(0), memory=memory)
    listed = ",".join(map(str, [code, mode, *numbers]))
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


POLICY_CALLS = ("set_mempolicy", "get_mempolicy", "mbind", "move_pages")


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS])
def test_command_starts_where_policies_are_forbidden_and_that_is_said_once(
    code: int, node: int
) -> None:
    result = _run(MemoryPlan("spill", "preferred", (node,)), code, POLICY_CALLS)
    assert result.returncode == 0, result.stderr
    policy, notes = json.loads(result.stdout)
    assert policy is None
    assert len(notes) == 1
    assert result.stderr.count("\n") == 1
    assert f"memory policy preferred:{node} cannot be set: {errno.errorcode[code]}" in result.stderr
    assert result.stderr.endswith("going on without it\n")


def test_strict_command_does_not_start_where_policies_are_forbidden(node: int) -> None:
    result = _run(MemoryPlan("strict", "bind", (node,)), errno.EPERM, POLICY_CALLS)
    assert (result.returncode, result.stdout) == (2, "")
    assert "docker run --cap-add=SYS_NICE" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("mode", "number", "weaker"),
    [("preferred-many", 5, "preferred"), ("weighted-interleave", 6, "interleave")],
)
def test_command_starts_in_a_weaker_mode_on_an_older_kernel(
    mode: str, number: int, weaker: str, node: int
) -> None:
    memory = MemoryPlan("weighted", mode, (node,))  # type: ignore[arg-type]
    result = _run(memory, errno.EINVAL, ("set_mempolicy",), number)
    assert json.loads(result.stdout)[0] == f"{weaker}:{node}"
    assert result.stderr == (
        f"affinity.exec: this kernel does not know memory policy {mode}: {weaker}:{node} instead\n"
    )
