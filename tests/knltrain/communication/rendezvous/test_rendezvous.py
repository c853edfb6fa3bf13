"""Processes of one launch find each other, by real connections; here they are threads."""

from __future__ import annotations

import hmac
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knltrain.cluster.job_secret import JobSecret
from knltrain.cluster.task import Task
from knltrain.communication.rendezvous import rendezvous
from knltrain.communication.rendezvous.failure_detector import MemberDetector
from knltrain.communication.rendezvous.handshake import hello
from knltrain.communication.rendezvous.rendezvous import Rendezvous
from knltrain.errors import ConfigError, ExchangeTimeout, PeerLost, RunAborted


def task(rank: int, tasks: int, job: str, **changed: Any) -> Task:
    return replace(Task("tests", rank, tasks, 0, 1, str(rank), job, "127.0.0.1"), **changed)


def card(rank: int) -> dict[str, Any]:
    return {"host": f"n{rank}", "much": "x" * 10_000}


def hosts(cards: list[Any]) -> list[str]:
    return [each["host"] for each in cards]


def gathered(
    tasks: int, work: Callable[[Rendezvous, list[PeerLost]], Any], job: str | None = None
) -> list[Any]:
    job = job or secrets.token_hex(4)

    def one(rank: int) -> Any:
        time.sleep(0.05 * (tasks - rank))  # the first comes last
        lost: list[PeerLost] = []
        found = Rendezvous(task(rank, tasks, job), card(rank), 20, lost.append, hosts)
        return work(found, lost)

    with ThreadPoolExecutor(tasks) as threads:
        return list(threads.map(one, range(tasks)))


def soon(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_know_what_was_agreed_on_and_hear_what_the_first_one_says() -> None:
    def work(found: Rendezvous, lost: list[PeerLost]) -> Any:
        word = found.share({"folder": "x" * 20_000} if found.task.rank == 0 else None)
        found.leave()
        assert not lost
        return found.agreed, word["folder"], found.token, found.first_address

    first, *others = gathered(3, work)
    assert first[0] == ["n0", "n1", "n2"]
    assert first[1] == "x" * 20_000
    assert first[3] == "127.0.0.1"
    assert all(other == first for other in others)


def test_what_the_first_one_refuses_all_refuse_in_the_same_words() -> None:
    job = secrets.token_hex(4)

    def refuse(cards: list[Any]) -> None:
        raise ConfigError(f"{len(cards)} are too many")

    def one(rank: int) -> str:
        with pytest.raises(ConfigError) as error:
            Rendezvous(task(rank, 2, job), card(rank), 20, print, refuse)
        return str(error.value)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(one, range(2))) == ["2 are too many"] * 2


def test_two_launches_at_once_on_the_same_ports_keep_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_PORTS", 1)
    monkeypatch.setattr(rendezvous, "_FIRST_PORT", _free_port())
    monkeypatch.setattr(
        rendezvous, "_ports", lambda _task: [rendezvous._FIRST_PORT + n for n in range(4)]
    )

    def both(job: str) -> Any:
        return gathered(2, lambda found, _: (found.share(job), found.leave())[0], job)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(both, ["a", "b"])) == [["a", "a"], ["b", "b"]]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def test_others_hear_who_has_failed_and_why() -> None:
    def work(found: Rendezvous, lost: list[PeerLost]) -> str:
        if found.task.rank == 1:
            found.leave(in_peace=False, why="no room on its disk")
            return ""
        soon(lambda: bool(lost))
        found.leave()
        return str(lost[0])

    told = gathered(3, work)
    assert told[0] == told[2] == "task 1 (n1) is gone: no room on its disk"


def test_waiting_for_a_word_ends_when_the_first_one_fails() -> None:
    def work(found: Rendezvous, _lost: list[PeerLost]) -> str:
        if found.task.rank == 0:
            found.leave(in_peace=False, why="no run folder")
            return ""
        with pytest.raises(PeerLost) as error:
            found.share()
        found.leave()
        return str(error.value)

    assert gathered(2, work)[1] == "task 0 (n0) is gone: no run folder"


def test_stranger_who_knows_all_that_is_public_becomes_no_task_and_the_launch_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It takes a guess at the secret, and says what a task of this version says."""
    job = secrets.token_hex(4)
    public = f"knltrain, {job}, user {os.getuid()}".encode()
    refused = []

    def stranger() -> None:
        addresses = [("127.0.0.1", port) for port in rendezvous._ports(task(1, 2, job))]
        for guess in (public, b""):
            with pytest.raises(ExchangeTimeout):
                MemberDetector(1, addresses, guess, ["a", "b"], print, print, 1, card(1))
            for port in rendezvous._ports(task(1, 2, job)):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as visitor:
                    visitor.settimeout(10)
                    visitor.sendall(hello(1))
                    answer = visitor.recv(100)
                    visitor.sendall(hmac.digest(guess, answer, "sha256"))
                    refused.append(visitor.recv(1) == b"")

    def work(found: Rendezvous, lost: list[PeerLost]) -> Any:
        found.leave()
        assert not lost
        return found.agreed

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(
            Rendezvous, task(0, 2, job), card(0), 60, print, lambda cards: hosts(cards)
        )
        soon(lambda: any(is_taken(port) for port in rendezvous._ports(task(0, 2, job))))
        stranger()
        other = threads.submit(Rendezvous, task(1, 2, job), card(1), 60, print, hosts)
        found = [each.result(timeout=60) for each in (first, other)]
    assert [work(each, []) for each in found] == [["n0", "n1"]] * 2
    assert refused == [True, True]
    assert "it does not know the secret of this job" in caplog.text


def is_taken(port: int) -> bool:
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind(("", port))
        except OSError:
            return True
        return False


def test_nothing_is_left_of_the_secret_and_that_of_a_killed_job_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    job = secrets.token_hex(4)
    killed = JobSecret(task(0, 2, job))
    killed.offered()
    assert len(list(tmp_path.rglob("*.secret"))) == 1
    gathered(2, lambda found, _: found.leave(), job)
    assert [path.name for path in tmp_path.rglob("*")] == ["knltrain", "jobs"]


def test_nothing_is_left_of_the_secret_where_a_signal_comes_before_anybody_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(listener: socket.socket, *_: object) -> None:
        listener.close()
        raise RunAborted("stopped by SIGTERM", signal.SIGTERM)

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(rendezvous, "RootDetector", stopped)
    with pytest.raises(RunAborted):
        Rendezvous(task(0, 2, secrets.token_hex(4)), card(0), 20, print, hosts)
    assert not list(tmp_path.rglob("*.secret"))


def test_first_one_listens_where_the_others_have_come() -> None:
    def work(found: Rendezvous, _: list[PeerLost]) -> str:
        if found.task.rank:
            found.leave()
            return ""
        with found.listener() as listener:
            found.leave()
            return str(listener.getsockname()[0])

    assert gathered(2, work)[0] == "127.0.0.1"


def test_first_one_names_those_that_do_not_come() -> None:
    with pytest.raises(ExchangeTimeout, match=r"0\.2 s in vain for task 1, task 2"):
        Rendezvous(task(0, 3, secrets.token_hex(4)), card(0), 0.2, print, hosts)


def test_others_say_where_they_have_looked_for_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendezvous, "_ATTEMPT_SECONDS", 0.1)
    with pytest.raises(ExchangeTimeout) as error:
        Rendezvous(task(1, 2, "nobody's"), card(0), 0.2, print, hosts)
    assert "in vain for task 0 on 127.0.0.1" in str(error.value)
    assert "the route from here is by 127.0.0.1" in str(error.value)
    assert "MASTER_ADDR" in str(error.value)


@pytest.mark.parametrize("rank", [0, 1])
def test_host_without_an_address_is_named(rank: int) -> None:
    with pytest.raises(
        ConfigError, match=r"'no\.such\.host\.invalid', where tests says that task 0"
    ):
        Rendezvous(task(rank, 2, "j", first_host="no.such.host.invalid"), card(0), 1, print, hosts)


def test_way_out_is_one_that_the_launcher_carries_along() -> None:
    """ssh takes no variables to the other computers."""
    lost = task(1, 2, "j", launcher="knltrain launch", first_host="no.such.host.invalid")
    with pytest.raises(ConfigError, match="an address of that computer by the option --address"):
        Rendezvous(lost, card(1), 1, print, hosts)


def test_first_one_that_is_on_another_computer_is_told() -> None:
    with pytest.raises(ConfigError) as error:
        Rendezvous(task(0, 2, "j", first_host="203.0.113.7"), card(0), 1, print, hosts)
    assert "has the address 203.0.113.7, which is none of this computer's (lo 127.0.0.1" in str(
        error.value
    )


def test_ports_of_which_none_is_free_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("", 0)) as taken:
        port = int(taken.getsockname()[1])
        monkeypatch.setattr(rendezvous, "_ports", lambda _task: [port])
        with pytest.raises(ConfigError, match=f"none of the ports {port} is free"):
            Rendezvous(task(0, 2, "j"), card(0), 1, print, hosts)


def test_job_of_another_user_is_at_other_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = rendezvous._ports(task(0, 2, "j"))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert rendezvous._ports(task(0, 2, "j")) != mine
