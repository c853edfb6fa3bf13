"""The failure detector: notices that a process on another computer is gone, and tells the others.

Rank 0 keeps a TCP connection to every other rank, and tells all others what happens to one.

- When a process ends, its kernel closes the connection.
- When a computer is cut off, the kernel of rank 0 gives the connection up after `SILENCE_SECONDS`.
- A rank that leaves in peace sends a message before it closes; one that fails may send the reason.
- With `heartbeat`, ranks send signs of life. Rank 0 takes a silent rank for lost, and the others a
  silent rank 0.

The same connections carry what ranks must know of each other before they begin: every rank sends a
card, and rank 0 sends an answer to all. Both ends prove that they know a secret (`handshake`);
strangers are turned away (`door`).
"""

from __future__ import annotations

import queue
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, final

from knltrain.communication.control_message import MessageError, checked
from knltrain.communication.rendezvous.connecting import link_to_first
from knltrain.communication.rendezvous.door import SILENCE_SECONDS, Door
from knltrain.communication.rendezvous.heartbeat import (
    Figures,
    Heartbeat,
    carrying,
    figures_in,
)
from knltrain.communication.rendezvous.peer_connection import (
    PeerConnection,
    close_in_forked_processes,
)
from knltrain.communication.rendezvous.peer_news import (
    is_note,
    last_words,
    news_in,
    silent_for,
    whereabouts,
)
from knltrain.communication.rendezvous.visitor import Visitor
from knltrain.communication.shared_memory import process_identity
from knltrain.errors import ExchangeTimeout, KnltrainError, PeerLost

_PAUSE_SECONDS = 0.02

_INTRODUCTION = {"where": (str,), "card": (dict, list, str, int, float, bool, type(None))}

Noted = Callable[[dict[str, Any]], None]
"""Called, by a thread of the detector, with a note of another rank."""

Told = Callable[[PeerLost], None]
"""Called, by a thread of the detector, with an error that says who is gone or has left."""


class FailureDetector(ABC):
    """One rank's part of the failure detector of a group, until it is closed.

    ``on_lost`` is called for the first rank that is gone, ``on_left`` for each that has left in
    peace. Their errors name it as in ``names``, which rank 0 may change.
    """

    def __init__(self, names: Sequence[str], on_lost: Told, on_left: Told) -> None:
        self.names = tuple(names)
        self._on_lost, self._on_left = on_lost, on_left
        self._has_lost = False
        self._closing = False
        self.on_note: Noted = _nobody_reads
        self._heartbeat: Heartbeat | None = None
        self._figures: Figures | None = None

    @abstractmethod
    def note(self, note: dict[str, Any]) -> None:
        """Send a note to ``on_note``: of all others from rank 0, else of rank 0."""

    @abstractmethod
    def close(self, in_peace: bool = True, why: str | None = None) -> None:
        """Leave. If not in peace, the others take this rank for lost, and learn ``why``."""

    def show_life(self, limit_seconds: float, figures: Figures | None = None) -> None:
        """Send heartbeats from now on; a rank that stops sending them for so long is lost.

        A rank is expected to send them once it has sent the first. Called again, it changes the
        limit and the ``figures`` that they carry.
        """
        self._end_heartbeat()
        self._figures = figures
        identity = process_identity.own_identity()

        def beat() -> None:
            for rank, link in self._links_by_rank().items():
                carried = {} if figures is None else carrying(figures.for_rank(rank))
                link.tell_in_passing({"beat": identity, **carried})

        def silent(rank: int) -> None:
            if (link := self._links_by_rank().get(rank)) is not None:
                link.give_up(silent_for(limit_seconds, link.identity))

        self._heartbeat = Heartbeat(limit_seconds, beat, self._links_by_rank, silent)
        for rank, link in self._links_by_rank().items():
            if link.identity:  # its first heartbeat came before
                self._heartbeat.heard(rank)

    @abstractmethod
    def _links_by_rank(self) -> dict[int, PeerConnection]:
        """Return the links to the ranks that are there."""

    def _end_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.close()

    def _feel(self, link: PeerConnection, said: Iterable[Any]) -> list[Any]:
        """Process the heartbeats among the messages; return the other messages."""
        rest = []
        for each in said:
            if isinstance(each, dict) and type(each.get("beat")) is int:
                link.identity = each["beat"]
                if self._heartbeat is not None:
                    self._heartbeat.heard(link.rank)
                if self._figures is not None and (carried := figures_in(each)):
                    self._figures.from_rank(link.rank, carried)
            else:
                rest.append(each)
        return rest

    def _take(self, news: dict[str, Any]) -> None:
        """Report that a rank has left or is lost."""
        name = self.names[news_in(news, len(self.names))["rank"]]
        if self._closing:
            return
        if news["left"]:
            self._on_left(PeerLost(f"{name} has left the group ({news['where']})"))
        elif not self._has_lost:
            self._has_lost = True
            why = news.get("why") or f"its {news['where']} has ended"
            self._on_lost(PeerLost(f"{name} is gone: {why}"))


@final
class RootDetector(FailureDetector):
    """Rank 0: all others connect to its ``listener``, and know the same ``secret``.

    No other group may have that secret. ``cards`` has the cards of the others by rank.
    ``own_addresses`` are the addresses of this computer that they connected to,
    ``their_addresses`` those that they connected from.
    """

    def __init__(
        self,
        listener: socket.socket,
        secret: bytes,
        names: Sequence[str],
        on_lost: Told,
        on_left: Told,
    ) -> None:
        super().__init__(names, on_lost, on_left)
        self._address = _address(listener)
        self._links: dict[int, PeerConnection] = {}
        self.cards: dict[int, Any] = {}
        self.own_addresses: set[str] = set()
        self.their_addresses: set[str] = set()
        self._last_words: dict[str, Any] | None = None
        self._selector = selectors.DefaultSelector()
        self._door = Door(listener, secret, len(names), self._selector)
        self._wake, self._woken = socket.socketpair()
        for each in (self._wake, self._woken):
            close_in_forked_processes(each)
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="peer watch", daemon=True)
        self._thread.start()

    def await_all(
        self, limit_seconds: float, failure: Callable[[], KnltrainError | None] = lambda: None
    ) -> None:
        """Return when all ranks are here; raise the error of ``failure()`` if there is one.

        Raises ExchangeTimeout with the names of missing ranks.
        """
        deadline = time.monotonic() + limit_seconds
        while missing := self._awaited():
            error = failure()
            if error is not None:
                raise error
            if time.monotonic() > deadline:
                absent = ", ".join(self.names[rank] for rank in missing)
                raise ExchangeTimeout(
                    f"waited {limit_seconds:g} s in vain for {absent} of a new group: expected all "
                    "of its ranks to create it, and the network to let them come to "
                    f"{self._address}"
                )
            time.sleep(_PAUSE_SECONDS)

    def rename(self, names: Sequence[str]) -> None:
        """Set the names of the ranks in the errors of all of them from now on."""
        self.names = tuple(names)
        self._tell_all({"names": names})

    def say(self, word: Any) -> None:
        """Send a value to all others; they must be here."""
        self._tell_all({"word": word})

    def note(self, note: dict[str, Any]) -> None:
        """Send a note to ``on_note`` of all others."""
        self._tell_all({"note": note})

    def _tell_all(self, message: dict[str, Any]) -> None:
        for link in list(self._links.values()):
            link.tell(message)

    def close(self, in_peace: bool = True, why: str | None = None) -> None:
        """Leave: the failure detector of the whole group ends."""
        if in_peace or why is not None:
            self._last_words = last_words(0, in_peace, why)
        self._closing = True
        self._end_heartbeat()
        with suppress(OSError):
            self._wake.send(b".")
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._closing:
                for key, _ in self._selector.select(self._door.pause_seconds):
                    if key.data is self._door:
                        self._door.let_in()
                    elif isinstance(key.data, Visitor):
                        self._door.greet(key.data, self._awaited())
                    elif key.data is not None:
                        self._hear(key.data)
                self._door.turn_away_the_late()
        except BaseException:
            self._last_words = None
            self._take({"rank": 0, "where": "watch over the others", "left": False})
            raise
        finally:
            for link in self._links.values():
                if self._last_words is not None:
                    link.tell(self._last_words)
                link.close()
            for each in (self._door, self._wake, self._woken):
                each.close()
            self._selector.close()

    def _hear(self, link: PeerConnection) -> None:
        """Process the messages of a link, which may not be that of a rank yet.

        A rank may have timed out and connected again: the first link that brings its card counts.
        """
        said = link.messages()
        if said == []:
            return
        if self._links.get(link.rank) is not link:
            if not self._admit(link, said):
                return
            said = (said or [])[1:]
        if said is not None:
            said = self._feel(link, said)
        while said and is_note(said[0]):
            self.on_note(said.pop(0)["note"])
        if said == []:
            return
        self._selector.unregister(link.connection)
        link.close()
        news = {"rank": link.rank, "where": link.where, "left": False, "why": link.given_up}
        with suppress(MessageError):
            last = news_in(said[-1] if said else None, len(self.names))
            if last["rank"] == link.rank:  # a rank reports only its own end
                news = last
        del self._links[link.rank]
        self._tell_all(news)
        self._take(news)

    def _links_by_rank(self) -> dict[int, PeerConnection]:
        return dict(self._links)

    def _awaited(self) -> list[int]:
        return [rank for rank in range(1, len(self.names)) if rank not in self.cards]

    def _admit(self, link: PeerConnection, said: list[Any] | None) -> bool:
        """Accept the card of a link that has proved itself, if it is the first of its rank."""
        try:
            brought = checked(said[0] if said else None, _INTRODUCTION)
        except MessageError:
            brought = None
        if brought is None or link.rank not in self._awaited():
            self._door.turn_out(link.connection)
            return False
        self._door.admitted(link)
        link.where = brought["where"]
        self._links[link.rank] = link
        self.own_addresses.add(link.own_address)
        self.their_addresses.add(link.other_address)
        self.cards[link.rank] = brought["card"]
        if not self._awaited():
            self._door.shut()
        return True


@final
class MemberDetector(FailureDetector):
    """A rank that connects to rank 0 at one of ``addresses``, (host, port), with its ``secret``.

    Raises ExchangeTimeout if none of them accepts it; each has ``attempt_seconds``.
    """

    def __init__(
        self,
        rank: int,
        addresses: Sequence[tuple[str, int]],
        secret: bytes,
        names: Sequence[str],
        on_lost: Told,
        on_left: Told,
        attempt_seconds: float,
        card: Any = None,
    ) -> None:
        super().__init__(names, on_lost, on_left)
        self._rank = rank
        self._words: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._link = link_to_first(addresses, secret, rank, attempt_seconds, SILENCE_SECONDS)
        self._link.tell({"where": whereabouts(), "card": card})
        self._thread = threading.Thread(target=self._serve, name="peer watch", daemon=True)
        self._thread.start()

    @property
    def first_address(self) -> str:
        """The address at which rank 0 was reached."""
        return self._link.other_address

    @property
    def own_address(self) -> str:
        """The address of this computer that leads to rank 0."""
        return self._link.own_address

    def word(self, limit_seconds: float | None) -> Any:
        """Return the next value that rank 0 sends; None if rank 0 has gone meanwhile.

        Raises ExchangeTimeout past the limit, if there is one.
        """
        try:
            return self._words.get(timeout=limit_seconds)
        except queue.Empty:
            raise ExchangeTimeout(
                f"waited {limit_seconds:g} s in vain for an answer of {self.names[0]}"
            ) from None

    def note(self, note: dict[str, Any]) -> None:
        """Send a note to ``on_note`` of rank 0."""
        self._link.tell({"note": note})

    def close(self, in_peace: bool = True, why: str | None = None) -> None:
        """Leave; others take one that does not leave in peace for lost, and are told ``why``."""
        self._closing = True
        self._end_heartbeat()
        if in_peace or why is not None:
            self._link.tell(last_words(self._rank, in_peace, why))
        with suppress(OSError):
            self._link.connection.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._link.close()

    def _serve(self) -> None:
        where = "connection, and with it its process or its computer,"
        end = {"rank": 0, "where": where, "left": False}
        try:
            while (said := self._link.messages()) is not None:
                for news in self._feel(self._link, said):
                    self._heed(news)
                    if news.get("rank") == 0:
                        return
            self._take({**end, "why": self._link.given_up})
        except MessageError as error:
            self._take({**end, "why": f"it said what no rank says: {error}"})
        finally:
            self._words.put(None)

    def _links_by_rank(self) -> dict[int, PeerConnection]:
        return {0: self._link}

    def _heed(self, said: Any) -> None:
        """Process a message of rank 0; MessageError if it is not a valid one."""
        if not isinstance(said, dict):
            raise MessageError(f"a {type(said).__name__}: expected an object")
        if "word" in said:
            self._words.put(said["word"])
        elif is_note(said):
            self.on_note(said["note"])
        elif "names" in said:
            names = said["names"]
            if not isinstance(names, list) or [type(name) for name in names] != [str] * len(
                self.names
            ):
                raise MessageError(f"names that are not {len(self.names)} texts")
            self.names = tuple(names)
        else:
            self._take(said)


def _nobody_reads(note: dict[str, Any]) -> None:
    """Drop a note that no one expects."""


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{socket.gethostname() if host == '0.0.0.0' else host}, port {port}"
