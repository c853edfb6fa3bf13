"""Processes of one launch find each other, by real connections; here they are threads."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from knltrain.cluster import Task
from knltrain.errors import ConfigError, ExchangeTimeout, PeerLost
from knltrain.exchange import gathering
from knltrain.exchange.gathering import Gathering


def task(rank: int, tasks: int, job: str, **changed: Any) -> Task:
    return replace(Task("tests", rank, tasks, 0, 1, str(rank), job, "127.0.0.1"), **changed)


def card(rank: int) -> dict[str, Any]:
    return {"host": f"n{rank}", "much": "x" * 10_000}


def hosts(cards: list[Any]) -> list[str]:
    return [each["host"] for each in cards]


def gathered(
    tasks: int, work: Callable[[Gathering, list[PeerLost]], Any], job: str | None = None
) -> list[Any]:
    job = job or secrets.token_hex(4)

    def one(rank: int) -> Any:
        time.sleep(0.05 * (tasks - rank))  # the first comes last
        lost: list[PeerLost] = []
        found = Gathering(task(rank, tasks, job), card(rank), 20, lost.append, hosts)
        return work(found, lost)

    with ThreadPoolExecutor(tasks) as threads:
        return list(threads.map(one, range(tasks)))


def soon(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_know_what_was_agreed_on_and_hear_what_the_first_one_says() -> None:
    def work(found: Gathering, lost: list[PeerLost]) -> Any:
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
            Gathering(task(rank, 2, job), card(rank), 20, print, refuse)
        return str(error.value)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(one, range(2))) == ["2 are too many"] * 2


def test_two_launches_at_once_on_the_same_ports_keep_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_PORTS", 1)
    monkeypatch.setattr(gathering, "_FIRST_PORT", _free_port())
    monkeypatch.setattr(
        gathering, "_ports", lambda _task: [gathering._FIRST_PORT + n for n in range(4)]
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
    def work(found: Gathering, lost: list[PeerLost]) -> str:
        if found.task.rank == 1:
            found.leave(in_peace=False, why="no room on its disk")
            return ""
        soon(lambda: bool(lost))
        found.leave()
        return str(lost[0])

    told = gathered(3, work)
    assert told[0] == told[2] == "task 1 (n1) is gone: no room on its disk"


def test_waiting_for_a_word_ends_when_the_first_one_fails() -> None:
    def work(found: Gathering, _lost: list[PeerLost]) -> str:
        if found.task.rank == 0:
            found.leave(in_peace=False, why="no run folder")
            return ""
        with pytest.raises(PeerLost) as error:
            found.share()
        found.leave()
        return str(error.value)

    assert gathered(2, work)[1] == "task 0 (n0) is gone: no run folder"


def test_first_one_names_those_that_do_not_come() -> None:
    with pytest.raises(ExchangeTimeout, match=r"0\.2 s in vain for task 1, task 2"):
        Gathering(task(0, 3, secrets.token_hex(4)), card(0), 0.2, print, hosts)


def test_others_say_where_they_have_looked_for_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "_ATTEMPT_SECONDS", 0.1)
    with pytest.raises(ExchangeTimeout) as error:
        Gathering(task(1, 2, "nobody's"), card(0), 0.2, print, hosts)
    assert "in vain for task 0 on 127.0.0.1" in str(error.value)
    assert "from here the way goes by 127.0.0.1" in str(error.value)
    assert "MASTER_ADDR" in str(error.value)


@pytest.mark.parametrize("rank", [0, 1])
def test_host_without_an_address_is_named(rank: int) -> None:
    with pytest.raises(
        ConfigError, match=r"'no\.such\.host\.invalid', where tests says that task 0"
    ):
        Gathering(task(rank, 2, "j", first_host="no.such.host.invalid"), card(0), 1, print, hosts)


def test_way_out_is_one_that_the_launcher_carries_along() -> None:
    """ssh takes no variables to the other computers."""
    lost = task(1, 2, "j", launcher="knltrain launch", first_host="no.such.host.invalid")
    with pytest.raises(ConfigError, match="an address of that computer by the option --address"):
        Gathering(lost, card(1), 1, print, hosts)


def test_first_one_that_is_on_another_computer_is_told() -> None:
    with pytest.raises(ConfigError) as error:
        Gathering(task(0, 2, "j", first_host="203.0.113.7"), card(0), 1, print, hosts)
    assert "has the address 203.0.113.7, which is none of this computer's (lo 127.0.0.1" in str(
        error.value
    )


def test_ports_of_which_none_is_free_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("", 0)) as taken:
        port = int(taken.getsockname()[1])
        monkeypatch.setattr(gathering, "_ports", lambda _task: [port])
        with pytest.raises(ConfigError, match=f"none of the ports {port} is free"):
            Gathering(task(0, 2, "j"), card(0), 1, print, hosts)


def test_job_of_another_user_is_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = gathering._token(task(0, 2, "j"))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert gathering._token(task(0, 2, "j")) != mine
