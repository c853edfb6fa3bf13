"""The rendezvous of the processes that a launcher has started for one run.

Every process knows from its launcher its rank, the number of processes, and the host of the first
one (`knltrain.cluster.Task`). The first process listens at the first free one of a few ports, which
follow from the job's name; the others try them all. Ports and names are public, so both sides prove
that they know the job's secret (`knltrain.cluster.JobSecret`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, final

from knltrain.cluster.job_secret import JobSecret
from knltrain.cluster.task import Task
from knltrain.communication.rendezvous.failure_detector import (
    FailureDetector,
    MemberDetector,
    RootDetector,
)
from knltrain.communication.rendezvous.heartbeat import Figures
from knltrain.communication.rendezvous.network_interface import (
    address_towards,
    interfaces,
    is_loopback,
)
from knltrain.errors import CollectiveError, ConfigError, ExchangeTimeout, PeerLost

_FIRST_PORT, _PORTS, _TRIED = 16000, 16000, 8
"""Below Linux's ephemeral ports."""

_LEAST_BACKLOG = 128
"""The length of the listen queue: a few strangers at once must not keep ranks out."""

_ATTEMPT_SECONDS = 2.0
_PAUSE_SECONDS = 0.1


@final
class Rendezvous:
    """The connections of this process to the others of ``task``, until it leaves.

    Each process brings a ``card``, a JSON value. The first process calls ``agree`` with the cards
    of all, by rank; all processes get the result as ``agreed``.

    - ``first_address``: the address at which the first process is reached from here
    - ``address``: the address of this computer from which it is reached
    - ``token``: a name that no other rendezvous has had
    - ``on_lost``: called, by another thread, for the first process that is gone
    - ``on_note``: called for each note that arrives once all are there

    Raises ExchangeTimeout, with the names of processes missing after ``limit_seconds``, and
    ConfigError if the first process has no route, ``agree`` raises it, or other users may know the
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
        self.shows_life, self._limit_seconds = False, limit_seconds
        self._secret = JobSecret(task)
        self._key = b""
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
        """Broadcast ``word`` of the first process; return it.

        It is awaited for the time limit, or once processes show life for as long as they do.
        """
        if self._first_rank is not None:
            self._first_rank.say(word)
            return word
        assert self._other is not None
        told = self._other.word(None if self.shows_life else self._limit_seconds)
        if told is None:
            raise self._lost or PeerLost(f"{self._other.names[0]} has left")
        return told

    def listener(self) -> socket.socket:
        """Return a listener of the first process for further connections, at a free port.

        If the others have connected to one address of this computer, it listens at that one alone.
        """
        assert self._first_rank is not None
        addresses = self._first_rank.own_addresses
        alone = next(iter(addresses)) if len(addresses) == 1 else ""
        return socket.create_server((alone, 0), backlog=self.task.tasks)

    def key_for(self, purpose: str) -> bytes:
        """A key of this run for other connections of its processes, which all of them know."""
        return hmac.digest(self._key, f"{purpose} {self.token}".encode(), "sha256")

    def note(self, note: dict[str, Any]) -> None:
        """Send a note: the first process to all others, another one to the first."""
        watch = self._watch()
        if watch is not None:
            watch.note(note)

    def show_life(self, limit_seconds: float, figures: Figures | None = None) -> None:
        """Send heartbeats with ``figures`` from now on; who stops doing so for so long is lost."""
        watch = self._watch()
        if watch is not None:
            self.shows_life = True
            watch.show_life(limit_seconds, figures)

    def leave(self, in_peace: bool = True, why: str | None = None) -> None:
        """End the connections; if not in peace, the others learn ``why``."""
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
        """Return an address that others have connected to; no loopback if hosts differ."""
        found = sorted(first.own_addresses, key=is_loopback)
        return found[0] if found else self.address

    def _first(self) -> RootDetector:
        task = self.task
        self.address = _own_address(task)
        listener = _listener(task)
        try:
            key = self._key = self._secret.offered()
        except BaseException:
            listener.close()
            raise
        return RootDetector(listener, key, _names(task), self._take_lost, self._take_left)

    def _come(self, card: Mapping[str, Any]) -> MemberDetector:
        """Connect to the first process, which may still be starting."""
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
                        f"{host} ({error}); the route from here is by {own}; if that is the wrong "
                        "computer or network, name the right address of task 0 by "
                        f"{task.way_to_name_first}"
                    ) from None
                time.sleep(_PAUSE_SECONDS)
                continue
            self.address, self.first_address = other.own_address, other.first_address
            return other

    def _attempt(self, address: str, card: Mapping[str, Any]) -> MemberDetector:
        """Connect to the first process with the secret, read anew; else ExchangeTimeout."""
        key = self._key = self._secret.found() or b""
        if not key:
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
        """Ignore it: a process that has left in peace has done its work."""


def _names(task: Task) -> list[str]:
    """Return the names of the processes before their hosts are known."""
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
    """Return the address of the first task's computer; ConfigError if that is not this one."""
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
