from __future__ import annotations

import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer, fd_behind
from knltrain.errors import SegmentError

NOBODY = 65534


def memory(text: bytes = b"hello") -> int:
    fd = os.memfd_create("shared")
    os.write(fd, text)
    return fd


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def as_another_user(work: Callable[[], None]) -> Iterator[None]:
    """A process of another user that does something, until the block ends."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    ready, telling = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(telling, b".")
            work()
        os._exit(1)
    os.close(telling)
    os.read(ready, 1)
    os.close(ready)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def hands_out(address: str, make: Callable[[], int], told: int) -> None:
    """Give a descriptor to everybody who comes, as a program of a stranger would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(f"\0{address}")
        door.listen()
        os.write(told, b".")
        while True:
            visitor, _ = door.accept()
            with visitor, suppress(OSError):
                socket.send_fds(visitor, [b"1"], [make()])


def test_descriptor_behind_an_address_is_that_of_the_same_file() -> None:
    fd = memory(b"")
    os.ftruncate(fd, 5)
    door = DescriptorServer(fd)
    other = fd_behind(door.address)
    assert not os.get_inheritable(other)
    os.write(fd, b"hello")
    assert os.pread(other, 5, 0) == b"hello"
    door.close()
    os.close(fd)
    os.close(other)


def test_closed_door_and_unknown_address_are_told() -> None:
    fd = memory()
    door = DescriptorServer(fd)
    door.close()
    os.close(fd)
    for address in (door.address, "knltrain-memory-nobody"):
        with pytest.raises(SegmentError, match=f"no shared memory at address '{address}'"):
            fd_behind(address)


def test_memory_of_another_user_is_not_taken() -> None:
    address = f"knltrain-test-{secrets.token_hex(8)}"
    told, telling = os.pipe()
    with as_another_user(lambda: hands_out(address, memory, telling)):
        os.read(told, 1)
        with pytest.raises(SegmentError, match=f"a process of user {NOBODY} answers there"):
            fd_behind(address)
    os.close(told)
    os.close(telling)


def test_memory_is_not_given_to_another_user() -> None:
    fd = memory()
    door = DescriptorServer(fd)
    told, telling = os.pipe()

    def take() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
            visitor.connect(f"\0{door.address}")
            answer, fds, _, _ = socket.recv_fds(visitor, 1, 1)
        os.write(telling, answer + bytes([len(fds)]))

    with as_another_user(take):
        assert os.read(told, 2) == b"0\0"
    door.close()
    for each in (fd, told, telling):
        os.close(each)


def test_root_may_hand_out_memory_to_others() -> None:
    address = f"knltrain-test-{secrets.token_hex(8)}"
    told, telling = os.pipe()

    asked, asking = os.pipe()
    fd = memory()

    def take() -> None:
        os.read(asked, 1)
        found = fd_behind(address)
        os.write(telling, os.pread(found, 5, 0))

    with as_another_user(take), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(f"\0{address}")
        door.listen()
        os.write(asking, b".")
        visitor, _ = door.accept()
        with visitor:
            socket.send_fds(visitor, [b"1"], [fd])
            assert os.read(told, 5) == b"hello"
    for each in (fd, told, telling, asked, asking):
        os.close(each)


@pytest.mark.parametrize("kind", ["pipe", "folder", "empty"])
def test_what_is_no_memory_is_refused(kind: str) -> None:
    ends = os.pipe()
    fd = {
        "pipe": lambda: ends[0],
        "folder": lambda: os.open("/", os.O_RDONLY),
        "empty": lambda: os.memfd_create("empty"),
    }[kind]()
    door = DescriptorServer(fd)
    before = open_files()
    with pytest.raises(SegmentError, match="what is handed out there is no memory"):
        fd_behind(door.address)
    deadline = time.monotonic() + 20  # the door closes its end a moment later
    while open_files() != before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    door.close()
    for each in {fd, *ends}:
        os.close(each)
