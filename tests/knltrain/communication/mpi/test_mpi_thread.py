from __future__ import annotations

import threading

import pytest

from knltrain.communication.mpi.mpi_thread import MpiThread
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost


def test_mpi_is_finalised_by_the_thread_that_has_initialised_it():
    called = []

    def call():
        called.append(threading.get_ident())
        return 0

    thread = MpiThread(call, call)
    thread.await_initialised(20)
    assert len(called) == 1
    thread.finalise(20)
    assert called == [called[0]] * 2
    assert called[0] != threading.get_ident()


def test_a_call_that_does_not_return_is_not_waited_for_longer_than_the_limit():
    go = threading.Event()
    thread = MpiThread(lambda: int(go.wait()) - 1, lambda: 0)
    with pytest.raises(ExchangeTimeout, match=r"MPI_Init_thread took more than 0\.05 s"):
        thread.await_initialised(0.05)
    go.set()
    thread.finalise(20)


def test_an_error_code_and_an_exception_are_raised_by_who_waits():
    with pytest.raises(CollectiveError, match="MPI_Init_thread failed with code 15"):
        MpiThread(lambda: 15, lambda: 0).await_initialised(20)
    with pytest.raises(ZeroDivisionError):
        MpiThread(lambda: 1 // 0, lambda: 0).await_initialised(20)
    thread = MpiThread(lambda: 0, lambda: 15)
    thread.await_initialised(20)
    with pytest.raises(CollectiveError, match="MPI_Finalize failed with code 15"):
        thread.finalise(20)


def test_what_has_failed_elsewhere_ends_the_waiting():
    go = threading.Event()
    thread = MpiThread(lambda: int(go.wait()) - 1, lambda: 0)
    thread.fail(PeerLost("rank 1 is gone"))
    with pytest.raises(PeerLost, match="rank 1"):
        thread.await_initialised(20)
    go.set()


def test_what_the_check_raises_ends_the_waiting():
    def check():
        raise PeerLost("the run is being stopped")

    go = threading.Event()
    with pytest.raises(PeerLost, match="being stopped"):
        MpiThread(lambda: int(go.wait()) - 1, lambda: 0, check).await_initialised(20)
    go.set()
