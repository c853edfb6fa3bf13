"""Memory policies of Linux, for a thread or for a mapping.

A policy decides where a page goes when it is first touched. A thread's policy is inherited by the
threads it starts, by fork and by exec. A mapping's policy stays with the mapping, and with the
object behind it if that is shared memory (memfd, /dev/shm).

A mask that names HBM and DRAM together, ``bind`` or ``preferred-many``, is searched from the
cpu's own node: all pages land in DRAM first. To fill HBM first, name HBM alone.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Iterable
from typing import NamedTuple

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import MemoryPolicyError
from affinity.process import kernel_call
from affinity.process.policy import (
    MAXNODE,
    MODES,
    WEAKER,
    NodeMask,
    Policy,
    check_form,
    packed,
    unpacked,
)

FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSYS)

_F_ADDR, _F_MEMS_ALLOWED = 2, 4
_MF_STRICT, _MF_MOVE = 1, 2
_MODE_BITS = 0x0FFF  # Above them stand flags.


class AppliedPolicy(NamedTuple):
    """The policy in effect; `notes` say why it is not the requested one."""

    mode: str
    nodes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def memory_policy(address: int | None = None) -> Policy:
    """The policy of the calling thread, or that of the memory at `address`.

    Memory of ``default`` policy follows the thread that touches it.
    """
    mode, mask = (ctypes.c_int * 1)(), NodeMask()
    flags = 0 if address is None else _F_ADDR
    try:
        kernel_call.kernel_call("get_mempolicy", mode, mask, MAXNODE, address, flags)
    except OSError as error:
        raise _refused("the memory policy cannot be read", error) from None
    number = mode[0] & _MODE_BITS
    name = MODES[number] if number < len(MODES) else f"mode {number}"
    return Policy(name, unpacked(mask))


def allowed_memories() -> tuple[int, ...]:
    """Ids of the nodes that the cpuset of this process lets it take memory from."""
    mask = NodeMask()
    try:
        kernel_call.kernel_call("get_mempolicy", None, mask, MAXNODE, None, _F_MEMS_ALLOWED)
    except OSError as error:
        if told := _memories_in_status():
            return told
        raise _refused("the allowed memory nodes cannot be read", error) from None
    return unpacked(mask)


def set_memory_policy(mode: str, nodes: Iterable[int] = ()) -> None:
    """Give the calling thread, and all it starts from now on, this policy.

    Raises MemoryPolicyError, with nothing changed, for a node that may not be used (the kernel
    would silently take the others), and if the kernel refuses or does not know the mode.
    """
    policy = _checked(mode, nodes)
    try:
        kernel_call.kernel_call("set_mempolicy", *packed(policy))
    except OSError as error:
        raise _refused(f"memory policy {policy} cannot be set", error) from None


def bind_memory(
    address: int, size: int, mode: str, nodes: Iterable[int] = (), move: bool = False
) -> None:
    """Give the pages from `address`, the start of a page, on for `size` bytes this policy.

    Pages that have been touched stay where they are unless `move`; a ``bind`` with `move` fails
    if any of them cannot be moved. Raises MemoryPolicyError as `set_memory_policy` does.
    """
    policy = _checked(mode, nodes)
    flags = _MF_MOVE | _MF_STRICT * (mode == "bind") if move else 0
    try:
        kernel_call.kernel_call("mbind", address, size, *packed(policy), flags)
    except OSError as error:
        what = f"{size} bytes at {address:#x} cannot be put under memory policy {policy}"
        raise _refused(what, error) from None


def apply_memory_policy(
    mode: str, nodes: Iterable[int] = (), required: bool = False
) -> AppliedPolicy:
    """Do as `set_memory_policy`, in the next weaker mode if this kernel does not know the mode.

    Forbidden (by a container's filter) or unknown policies are an error only if `required`.
    """
    return as_far_as_possible(set_memory_policy, mode, nodes, required)


def drop_inherited_policy(required: bool = False) -> AppliedPolicy:
    """Free the calling thread of a policy it inherited, but leave a ``bind``: that is a limit.

    A policy that cannot be dropped is a note, and an error only if that is `required`.
    """
    try:
        inherited = memory_policy()
    except MemoryPolicyError:  # Where none can be read, nobody has set one either.
        return AppliedPolicy("default")
    if inherited.mode in ("default", "bind"):
        return AppliedPolicy(*inherited)
    try:
        set_memory_policy("default")
    except MemoryPolicyError as error:
        if required:
            raise
        return AppliedPolicy(*inherited, (f"{inherited} is inherited and stays: {error}",))
    return AppliedPolicy("default")


def as_far_as_possible(
    tell: Callable[[str, tuple[int, ...]], None],
    mode: str,
    nodes: Iterable[int],
    required: bool = False,
) -> AppliedPolicy:
    """Set a policy by `tell`, or a weaker one where the kernel does not know the mode."""
    given = tuple(nodes)
    try:
        tell(mode, given)
    except MemoryPolicyError as error:
        if error.errno == errno.EINVAL and mode in WEAKER:
            weaker = Policy(WEAKER[mode], given[:1] if mode == "preferred-many" else given)
            note = f"this kernel does not know memory policy {mode}: {weaker} instead"
            applied = as_far_as_possible(tell, weaker.mode, weaker.nodes, required)
            return applied._replace(notes=(note, *applied.notes))
        if error.errno in FORBIDDEN and not required:
            return AppliedPolicy("default", (), (f"{error}; going on without it",))
        raise
    return AppliedPolicy(mode, given)


def _memories_in_status() -> tuple[int, ...]:
    with open("/proc/self/status", encoding="utf-8") as status:  # noqa: PTH123 (launches wait)
        lines = (line.partition(":\t") for line in status)
        told = next((nodes for key, _, nodes in lines if key == "Mems_allowed_list"), "")
    return parse_cpulist(told)


def _checked(mode: str, nodes: Iterable[int]) -> Policy:
    policy = Policy(mode, tuple(sorted(set(nodes))))
    check_form(policy)
    if not policy.nodes:
        return policy
    allowed = allowed_memories()
    if not set(policy.nodes) <= set(allowed):
        barred = format_cpulist(set(policy.nodes) - set(allowed))
        raise MemoryPolicyError(
            f"memory policy {policy}: node {barred} has no memory or may not be used here; "
            f"this process may use {format_cpulist(allowed)}: choose among these or widen the "
            "cpuset's cpuset.mems"
        )
    return policy


def _refused(what: str, error: OSError) -> MemoryPolicyError:
    code = error.errno or 0
    name = errno.errorcode.get(code, str(code))
    way_out = _WAYS_OUT.get(code, "")
    return MemoryPolicyError(f"{what}: {name} ({error.strerror}){way_out}", code)


_BARRED = (
    ", as filters of containers do: start the container with the capability SYS_NICE "
    "(docker run --cap-add=SYS_NICE), or ask for no policy"
)
_WAYS_OUT = {
    errno.EPERM: _BARRED,
    errno.EACCES: _BARRED,
    errno.ENOSYS: ": this kernel, or the sandbox in its place, has no NUMA policies: ask for none",
    errno.EINVAL: ": this kernel is too old for the mode, or the memory does not start at a page",
    errno.EIO: ": pages that others use as well cannot be moved: set the policy before they are "
    "touched",
    errno.EFAULT: ": part of this memory is not mapped",
    errno.ENOMEM: ": the kernel has no memory left for this",
}
