from __future__ import annotations

import queue
import socket

import pytest

from knltrain.communication.mpi.process_manager import ProcessManager
from knltrain.communication.mpi.serving import Serving
from knltrain.errors import ExchangeTimeout


def meeting(own):
    return [own]


@pytest.fixture
def served():
    """The library's end of a connection that is served, and what failures are told to."""
    failures = queue.SimpleQueue()
    made = []

    def make(meet=meeting):
        serving = Serving(ProcessManager("job-1", 2, "", meet), failures.put)
        made.append(socket.socket(fileno=serving.fd))
        made[-1].settimeout(20)
        return made[-1], failures, serving

    yield make
    for each in made:
        each.close()


def test_lines_are_answered_in_their_order_however_they_are_cut(served):
    library, _, _ = served()
    with library.makefile("rb") as answers:
        library.sendall(b"cmd=get_appnum\ncmd=get_univ")
        assert answers.readline() == b"cmd=appnum rc=0 appnum=0\n"
        library.sendall(b"erse_size\ncmd=finalize\n")
        assert answers.readline() == b"cmd=universe_size rc=0 size=2\n"
        assert answers.readline() == b"cmd=finalize_ack rc=0\n"


def test_a_meeting_that_fails_is_told_and_the_library_is_left_waiting(served):
    def meet(own):
        raise ExchangeTimeout("rank 1 is missing")

    library, failures, _ = served(meet)
    library.sendall(b"cmd=barrier_in\n")
    assert "rank 1" in str(failures.get(timeout=20))
    library.settimeout(0.05)
    with pytest.raises(TimeoutError):
        library.recv(1)


def test_a_library_that_is_unloaded_late_finds_its_answer_there(served):
    library, _, serving = served()
    serving.prepare_for_exit()
    serving._say_farewell()
    assert library.recv(100) == b"cmd=finalize_ack rc=0\n"
    library.close()
    serving._say_farewell()
