from __future__ import annotations

import ctypes
import errno
import mmap
import threading
from collections.abc import Callable

import pytest

from affinity.errors import MemoryPolicyError
from affinity.process import kernel_call
from affinity.process.memory_policy import (
    AppliedPolicy,
    allowed_memories,
    apply_memory_policy,
    bind_memory,
    memory_policy,
    set_memory_policy,
)
from affinity.process.policy import Policy


@pytest.mark.parametrize("mode", ["bind", "preferred", "interleave", "preferred-many"])
def test_kernel_gives_back_the_policy_that_was_set(mode: str, node: int) -> None:
    set_memory_policy(mode, (node,))
    assert memory_policy() == Policy(mode, (node,))
    set_memory_policy("default")
    assert memory_policy() == Policy("default")


def test_threads_inherit_the_policy_and_others_keep_theirs(node: int) -> None:
    seen: list[Policy] = []
    set_memory_policy("default")

    def bind_then_start() -> None:
        set_memory_policy("bind", (node,))
        inner = threading.Thread(target=lambda: seen.append(memory_policy()))
        inner.start()
        inner.join()

    outer = threading.Thread(target=bind_then_start)
    outer.start()
    outer.join()
    assert seen == [Policy("bind", (node,))]
    assert memory_policy() == Policy("default")


def test_memory_has_a_policy_of_its_own(node: int) -> None:
    memory = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    bind_memory(address + mmap.PAGESIZE, mmap.PAGESIZE, "bind", (node,))
    assert memory_policy(address + mmap.PAGESIZE) == Policy("bind", (node,))
    assert memory_policy(address) == Policy("default")
    assert memory_policy(address + 2 * mmap.PAGESIZE) == Policy("default")


def test_memory_within_a_page_is_refused(node: int) -> None:
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with pytest.raises(MemoryPolicyError, match="does not start at a page") as caught:
        bind_memory(address + 64, mmap.PAGESIZE, "bind", (node,))
    assert caught.value.errno == errno.EINVAL


def test_memory_that_is_not_mapped_is_refused(node: int) -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory.close()
    with pytest.raises(MemoryPolicyError, match="is not mapped"):
        bind_memory(address, mmap.PAGESIZE, "bind", (node,))


def test_node_that_may_not_be_used_is_refused_and_nothing_changes(node: int) -> None:
    barred = max(allowed_memories()) + 1
    set_memory_policy("default")
    with pytest.raises(MemoryPolicyError) as caught:
        # The kernel itself would take the node that is allowed, and say nothing.
        set_memory_policy("bind", (node, barred))
    assert f"node {barred} has no memory or may not be used here" in str(caught.value)
    assert memory_policy() == Policy("default")


def test_policy_that_the_kernel_knows_is_applied_without_a_word(node: int) -> None:
    assert apply_memory_policy("bind", (node,)) == AppliedPolicy("bind", (node,), ())


def test_older_kernel_prefers_the_first_of_many_nodes(node: int, old_kernel: None) -> None:
    applied = apply_memory_policy("preferred-many", (node,), required=True)
    assert memory_policy() == Policy("preferred", (node,))
    assert applied.mode == "preferred"
    assert applied.notes == (
        f"this kernel does not know memory policy preferred-many: preferred:{node} instead",
    )


def test_older_kernel_interleaves_without_weights(node: int, old_kernel: None) -> None:
    applied = apply_memory_policy("weighted-interleave", (node,))
    assert (applied.mode, applied.nodes) == ("interleave", (node,))
    assert memory_policy() == Policy("interleave", (node,))


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.EPERM, "--cap-add=SYS_NICE"), (errno.ENOSYS, "has no NUMA policies")],
)
def test_forbidden_policy_is_a_note_and_an_error_if_it_is_required(
    code: int, words: str, node: int, refuse: Callable[..., None]
) -> None:
    refuse("set_mempolicy", code)
    applied = apply_memory_policy("bind", (node,))
    assert (applied.mode, len(applied.notes)) == ("default", 1)
    assert words in applied.notes[0]
    assert applied.notes[0].endswith("going on without it")
    with pytest.raises(MemoryPolicyError, match=words) as caught:
        apply_memory_policy("bind", (node,), required=True)
    assert caught.value.errno == code


def test_allowed_nodes_are_read_from_the_status_where_the_call_is_forbidden(
    node: int, refuse: Callable[..., None]
) -> None:
    told = allowed_memories()
    refuse("get_mempolicy", errno.EPERM)
    assert allowed_memories() == told
    with pytest.raises(MemoryPolicyError, match="cannot be read: EPERM"):
        memory_policy()


@pytest.mark.parametrize(
    ("mode", "move", "flags"),
    [("bind", False, 0), ("preferred", True, 2), ("bind", True, 2 | 1)],
)
def test_pages_are_moved_on_request_and_all_of_them_if_they_are_bound(
    mode: str, move: bool, flags: int, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    ask = kernel_call.kernel_call

    def answer(name: str, *arguments: kernel_call.Argument) -> int:
        if name != "mbind":
            return ask(name, *arguments)
        asked.append(arguments)
        return 0

    monkeypatch.setattr(kernel_call, "kernel_call", answer)
    bind_memory(4096, 8192, mode, (node,), move)
    ((address, size, *_, told),) = asked
    assert (address, size, told) == (4096, 8192, flags)
