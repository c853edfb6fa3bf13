"""Real signals to this very process."""

from __future__ import annotations

import os
import select
import signal

import pytest

from knltrain.errors import RunAborted
from knltrain.launch.signals import ENDING, STOPPING, SignalPipe, signal_name, signals_raise


def _readable(pipe: SignalPipe) -> bool:
    return bool(select.select([pipe.fd], [], [], 10)[0])


def test_stopping_signals_are_told_in_order_and_do_not_interrupt() -> None:
    with SignalPipe() as signals:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert _readable(signals)
        assert signals.arrived() == [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
        assert signals.arrived() == []


def test_the_end_of_a_child_wakes_but_does_not_stop() -> None:
    with SignalPipe() as signals:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert _readable(signals)
        assert signals.arrived() == []


def test_leaving_puts_the_former_reactions_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)]
    with SignalPipe():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD)] == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_hangup_that_was_ignored_stays_ignored() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalPipe() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.arrived() == []
    finally:
        signal.signal(signal.SIGHUP, former)


def test_a_number_without_a_name_is_still_told() -> None:
    assert signal_name(signal.SIGSEGV) == "SIGSEGV"
    assert signal_name(63) == "signal 63"


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_raises_what_it_ends_with_and_only_within(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(RunAborted, match=f"stopped by {number.name}") as caught, signals_raise():
        os.kill(os.getpid(), number)
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", ENDING)
def test_while_a_run_awaits_others_only_those_raise_that_end_it_at_once(
    number: signal.Signals,
) -> None:
    with SignalPipe() as signals:
        with signals_raise(ENDING):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(RunAborted, match=number.name), signals_raise(ENDING):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert signals.arrived() == [signal.SIGTERM, number, number]
