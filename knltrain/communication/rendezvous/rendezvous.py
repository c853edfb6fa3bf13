"""How the processes that a launcher has started for one run find each other, and stay in touch.

Every process knows from its launcher which one it is, of how many, and where the first one is
(`knltrain.cluster.Task`). The first listens at one of a few ports that follow from the job's name,
the first that is free; the others try them all. Ports and names are no secret: both sides prove
that they know that of the job (`knltrain.cluster.JobSecret`).
"""

from __future__ import annotations

import hashlib
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, final

from knltrain.cluster import JobSecret, Task
from knltrain.communication.rendezvous.failure_detector import (
    FailureDetector,
    MemberDetector,
    RootDetector,
)
from knltrain.communication.rendezvous.network_interface import (
    address_towards,
    interfaces,
    is_loopback,
)
from knltrain.errors import CollectiveError, ConfigError, ExchangeTimeout, PeerLost

_FIRST_PORT, _PORTS, _TRIED = 16000, 16000, 8
"""Below those that Linux gives to connections that ask for none."""

_LEAST_BACKLOG = 128
"""Connections that wait to be taken: a few strangers at once are to keep nobody out."""

_ATTEMPT_SECONDS = 2.0
_PAUSE_SECONDS = 0.1


@final
class Rendezvous:
    """This process among all of ``task``'s, from when all are there until it leaves.

    Each brings a ``card``, which JSON can carry. The first one has ``agree`` look at all of them,
    by rank; ``agreed`` is what comes of that, for all. ``first_address`` is that by which the first
    one can be reached from here, ``address`` that of this computer from which it is; ``token`` is a
    name that no other gathering has had. ``on_lost`` is called, by another thread, with the first
    process that is gone, ``on_note`` with each note that comes once all are there.

    Raises ExchangeTimeout, with the names of those that do not come within ``limit_seconds``, and
    ConfigError if nothing leads to the first one, ``agree`` raises it, or others may know the
    job's secret.
    """

    def __init__(
        self,
        task: Task,
        card: Mapping[str, Any],
        limit_seconds: float,
        on_lost: Callable[[PeerLost], None],
        agree: Callable[[list[Any]], Any],
        on_note: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.task = task
        self._agree = agree
        self._on_lost = on_lost
        self._lost: PeerLost | None = None
        self._limit_seconds = limit_seconds
        self._secret = JobSecret(task)
        self._first_rank: RootDetector | None = None
        self._other: MemberDetector | None = None
        try:
            if task.rank == 0:
                self._first_rank = self._first()
            else:
                self._other = self._come(card)
            if on_note is not None and (watch := self._watch()) is not None:
                watch.on_note = on_note
            self._meet(card)
        except BaseException:
            self.leave(in_peace=False)
            raise
        finally:
            self._secret.withdraw()

    def share(self, word: Any = None) -> Any:
        """Tell all others something, if this is the first; return what the first one tells."""
        if self._first_rank is not None:
            self._first_rank.say(word)
            return word
        assert self._other is not None
        told = self._other.word(self._limit_seconds)
        if told is None:
            raise self._lost or PeerLost(f"{self._other.names[0]} has left")
        return told

    def listener(self) -> socket.socket:
        """A listener of the first one's for whatever the others are to come to, at a free port.

        It listens where they have come, and nowhere else as far as that was at one address.
        """
        assert self._first_rank is not None
        addresses = self._first_rank.own_addresses
        alone = next(iter(addresses)) if len(addresses) == 1 else ""
        return socket.create_server((alone, 0), backlog=self.task.tasks)

    def note(self, note: dict[str, Any]) -> None:
        """Send a note: the first process to all others, another one to the first."""
        watch = self._watch()
        if watch is not None:
            watch.note(note)

    def show_life(self, limit_seconds: float) -> None:
        """Give signs of life from now on; who ceases to for so long counts as gone."""
        watch = self._watch()
        if watch is not None:
            watch.show_life(limit_seconds)

    def leave(self, in_peace: bool = True, why: str | None = None) -> None:
        """End the connections; the others are told ``why`` where this is not in peace."""
        watch = self._watch()
        if watch is not None:
            watch.close(in_peace, why)

    def _watch(self) -> FailureDetector | None:
        return self._first_rank or self._other

    def _meet(self, card: Mapping[str, Any]) -> None:
        if self._first_rank is not None:
            self._first_rank.await_all(self._limit_seconds, lambda: self._lost)
            self.address = self.first_address = self._address_for_others(self._first_rank)
            cards = [card, *(self._first_rank.cards[rank] for rank in range(1, self.task.tasks))]
            hosts = enumerate(each["host"] for each in cards)
            self._first_rank.rename([f"task {rank} ({host})" for rank, host in hosts])
            told = self.share(self._judged(cards))
        else:
            told = self.share()
        if told["refused"] is not None:
            raise ConfigError(told["refused"])
        self.agreed: Any = told["agreed"]
        self.token: str = told["token"]

    def _judged(self, cards: list[Any]) -> dict[str, Any]:
        told: dict[str, Any] = {"refused": None, "agreed": None, "token": secrets.token_hex(8)}
        try:
            told["agreed"] = self._agree(cards)
        except ConfigError as error:
            told["refused"] = str(error)
        return told

    def _address_for_others(self, first: RootDetector) -> str:
        """The address by which others have come, not the loopback's if some are elsewhere."""
        found = sorted(first.own_addresses, key=is_loopback)
        return found[0] if found else self.address

    def _first(self) -> RootDetector:
        task = self.task
        self.address = _own_address(task)
        listener = _listener(task)
        try:
            key = self._secret.offered()
        except BaseException:
            listener.close()
            raise
        return RootDetector(listener, key, _names(task), self._take_lost, self._take_left)

    def _come(self, card: Mapping[str, Any]) -> MemberDetector:
        """Come to the first process, which may be starting yet."""
        task, host = self.task, str(self.task.first_host)
        deadline = time.monotonic() + self._limit_seconds
        while True:
            try:
                found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
                own = address_towards(host)
            except (OSError, CollectiveError) as error:
                raise ConfigError(_no_way(task, error)) from error
            try:
                other = self._attempt(str(found[0][4][0]), card)
            except ExchangeTimeout as error:
                if time.monotonic() > deadline:
                    raise ExchangeTimeout(
                        f"task {task.rank} waited {self._limit_seconds:g} s in vain for task 0 on "
                        f"{host} ({error}); from here the way goes by {own}; if that is the wrong "
                        "computer or network, name the right address of task 0 by "
                        f"{task.way_to_name_first}"
                    ) from None
                time.sleep(_PAUSE_SECONDS)
                continue
            self.address, self.first_address = other.own_address, other.first_address
            return other

    def _attempt(self, address: str, card: Mapping[str, Any]) -> MemberDetector:
        """Come to the first process with the secret that is there by now; else ExchangeTimeout."""
        key = self._secret.found()
        if key is None:
            raise ExchangeTimeout(
                f"the secret of the job, {self._secret.place}, is not there: expected the first "
                "task to write it into a folder that all computers share; or give it to all tasks "
                "by the variable KNLTRAIN_JOB_SECRET"
            )
        return MemberDetector(
            self.task.rank,
            [(address, port) for port in _ports(self.task)],
            key,
            _names(self.task),
            self._take_lost,
            self._take_left,
            _ATTEMPT_SECONDS,
            card,
        )

    def _take_lost(self, error: PeerLost) -> None:
        self._lost = error
        self._on_lost(error)

    def _take_left(self, error: PeerLost) -> None:
        """Who has left in peace has done its work."""


def _names(task: Task) -> list[str]:
    """How the processes are called before it is known where they are."""
    return [f"task {rank}" for rank in range(task.tasks)]


def _ports(task: Task) -> list[int]:
    number = int.from_bytes(hashlib.sha256(task.launch.encode()).digest()[:4], "little")
    return [_FIRST_PORT + (number + tried) % _PORTS for tried in range(_TRIED)]


def _listener(task: Task) -> socket.socket:
    ports = _ports(task)
    for port in ports:
        with suppress(OSError):
            return socket.create_server(("", port), backlog=max(_LEAST_BACKLOG, task.tasks))
    raise ConfigError(
        f"none of the ports {', '.join(map(str, ports))} is free on {socket.gethostname()}: "
        "expected one at which the first task of this launch can listen; start it anew"
    )


def _own_address(task: Task) -> str:
    """The address of the first task's computer, which must be this one."""
    host = str(task.first_host)
    try:
        found = {
            str(each[4][0])
            for each in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        }
    except OSError as error:
        raise ConfigError(_no_way(task, error)) from error
    own = interfaces()
    here = sorted(address for address in found if address in own.values())
    if here:
        return here[0]
    if any(address.startswith("127.") for address in found):
        return min(found)
    known = ", ".join(f"{name} {address}" for name, address in own.items())
    raise ConfigError(
        f"{task.launcher} has made this process task 0, on {socket.gethostname()}, but '{host}', "
        f"where task 0 is to be, has the address {', '.join(sorted(found))}, which is none of this "
        f"computer's ({known}): name one of these by {task.way_to_name_first}"
    )


def _no_way(task: Task, error: Exception) -> str:
    return (
        f"'{task.first_host}', where {task.launcher} says that task 0 is, cannot be reached from "
        f"{socket.gethostname()}: {error}; name an address of that computer by "
        f"{task.way_to_name_first}"
    )
