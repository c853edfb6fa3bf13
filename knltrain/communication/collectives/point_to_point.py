"""Messages between two ranks of a group: one thread moves whichever of them can go on.

No message waits for one to another rank, so no order of requests leads to a deadlock. Messages from
one rank to another under one tag arrive in the order in which they are sent.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from functools import partial
from typing import final

from knltrain.communication.collectives.channel import Channel
from knltrain.communication.collectives.message import ANY_RANK, Incoming, Outgoing, Request
from knltrain.communication.collectives.peer_wait import PeerWait
from knltrain.communication.collectives.segment import GroupSegment
from knltrain.errors import CollectiveError, KnltrainError

_LIVENESS_SECONDS, _LOOKS = 0.1, 50
_SHORTEST_NAP_SECONDS, _LONGEST_NAP_SECONDS = 20e-6, 500e-6


@final
class PointToPoint:
    """Sends and receives the messages of ``rank``; `Request` explains the terms."""

    def __init__(self, segment: GroupSegment, rank: int, peer_wait: PeerWait) -> None:
        ranks = range(segment.ranks)
        self._segment, self._rank, self._peer_wait = segment, rank, peer_wait
        self._to = [Channel(segment, rank, other) for other in ranks]
        self._from = [Channel(segment, other, rank) for other in ranks]
        self._outgoing: list[deque[Outgoing]] = [deque() for _ in ranks]
        self._incoming = [Incoming(other) for other in ranks]
        self._wanted: list[Request] = []
        self._unasked: list[Incoming] = []
        self._claimed: set[int] = set()
        self._posted: deque[tuple[bool, Request]] = deque()
        self._there_is_work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def send(self, request: Request) -> None:
        """Begin to send; the request's memory must not change until it is finished."""
        self._post(True, request)

    def receive(self, request: Request) -> None:
        """Begin to wait for a message, from ANY_RANK if the request says so."""
        self._post(False, request)

    def close(self) -> None:
        """Fail all requests that are not finished, and end the thread."""
        with self._there_is_work:
            self._closing = True
            self._there_is_work.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _post(self, goes_out: bool, request: Request) -> None:
        with self._there_is_work:
            self._posted.append((goes_out, request))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="knltrain-mail", daemon=True
                )
                self._thread.start()
            self._there_is_work.notify()

    def _serve(self) -> None:
        idle, nap_seconds, checked = 0, _SHORTEST_NAP_SECONDS, time.monotonic()
        while self._has_work():
            try:
                moved = self._move_on()
                now = time.monotonic()
                if moved:
                    idle, nap_seconds, checked = 0, _SHORTEST_NAP_SECONDS, now
                elif now - checked >= _LIVENESS_SECONDS:
                    checked = now
                    self._check()
            except KnltrainError as error:
                self._fail_all(error)
            idle += 1
            if idle > _LOOKS:
                time.sleep(nap_seconds)
                nap_seconds = min(2 * nap_seconds, _LONGEST_NAP_SECONDS)

    def _has_work(self) -> bool:
        """Take over the posted requests, wait if there are none; False at the end."""
        with self._there_is_work:
            while not (self._closing or self._posted or self._pending()):
                self._there_is_work.wait()
            if self._closing:
                self._fail_all(CollectiveError("the group was left before the message arrived"))
                return False
            posted, self._posted = list(self._posted), deque()
        for goes_out, request in posted:
            if goes_out:
                self._outgoing[request.rank].append(Outgoing(request))
            elif not self._take_unasked(request):
                self._wanted.append(request)
        return True

    def _move_on(self) -> int:
        queues = enumerate(self._outgoing)
        moved = sum(self._send_to(rank, queue) for rank, queue in queues if queue)
        for rank in range(self._segment.ranks):
            if self._incoming[rank].has_header or self._asked(rank):
                moved += self._receive_from(rank)
        return moved

    def _send_to(self, rank: int, queue: deque[Outgoing]) -> int:
        if rank not in self._claimed:
            self._segment.claim_channel(self._rank, rank)
            self._claimed.add(rank)
        message = queue[0]
        moved = message.advance(self._to[rank])
        if message.is_done:
            queue.popleft()
            message.request.finish(None, rank)
            moved += 1
        return moved

    def _receive_from(self, rank: int) -> int:
        message, channel = self._incoming[rank], self._from[rank]
        moved = 0 if message.has_header else message.read_header(channel)
        if not message.has_header:
            return moved
        if message.request is None:
            message.request = self._first_wanting(rank, message.tag)
        moved += message.advance(channel)
        if message.is_done:
            self._incoming[rank] = Incoming(rank)
            self._deliver(message)
            moved += 1
        return moved

    def _asked(self, rank: int) -> bool:
        return any(request.rank in (ANY_RANK, rank) for request in self._wanted)

    def _first_wanting(self, rank: int, tag: int) -> Request | None:
        for request in self._wanted:
            if request.wants(rank, tag):
                self._wanted.remove(request)
                return request
        return None

    def _take_unasked(self, request: Request) -> bool:
        for message in self._unasked:
            if request.wants(message.rank, message.tag):
                self._unasked.remove(message)
                message.request = request
                self._deliver(message)
                return True
        return False

    def _deliver(self, message: Incoming) -> None:
        request = message.request
        if request is None:
            self._unasked.append(message)
            return
        error = None
        if request.bytes != message.bytes:
            error = CollectiveError(
                f"{self._peer_wait.names[message.rank]} sent {message.bytes} bytes, but the tensor "
                f"to receive them has {request.bytes}: expected the same size and dtype"
            )
        elif message.found is not None:
            ctypes.memmove(request.address, int(message.found.ctypes.data), request.bytes)
        request.finish(error, message.rank)

    def _check(self) -> None:
        """Raise the error of a broken group; fail requests whose rank is gone or that time out."""
        self._peer_wait.check()
        now = time.monotonic()
        for request in self._pending():
            ranks = [request.rank] if request.rank != ANY_RANK else self._others()
            if len(ranks) == 1 or not any(map(self._peer_wait.is_present, ranks)):
                self._peer_wait.check_alive(partial(list, ranks))
            if now - request.posted > request.limit_seconds:
                raise self._peer_wait.give_up(ranks, request.limit_seconds)

    def _others(self) -> list[int]:
        return [rank for rank in range(self._segment.ranks) if rank != self._rank]

    def _pending(self) -> list[Request]:
        requests = [message.request for queue in self._outgoing for message in queue]
        requests += [message.request for message in self._incoming if message.request]
        return requests + self._wanted

    def _fail_all(self, error: KnltrainError) -> None:
        requests = [*self._pending(), *(request for _, request in self._posted)]
        for queue in self._outgoing:
            queue.clear()
        self._incoming = [Incoming(rank) for rank in range(self._segment.ranks)]
        self._wanted.clear()
        self._posted.clear()
        for request in requests:
            request.finish(error, request.rank)
