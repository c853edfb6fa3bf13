"""Pictures of all parts by their numbers: from this node's memory, or fetched from its peers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from knltrain.data.source import Pixels, Rows
from knltrain.errors import PeerLost
from knltrain.input.distributed.client import MOST_ROWS, ConnectionEnded, Doors, PartClient
from knltrain.input.distributed.parts import Division, Part

if TYPE_CHECKING:
    from knltrain.input.distributed.window import PartWindow, WindowClient


@final
@dataclass(frozen=True, slots=True)
class Fetched:
    """The records of pictures `rows` (n,), in their order, which may come more than once.

    `room` uint8 (n, bytes) has those of one size.
    """

    rows: Rows
    records: Sequence[memoryview]
    room: Pixels | None = None

    def places(self, rows: Rows) -> Rows | None:
        """Where pictures `rows` lie in it; None if one of them does not."""
        order = np.argsort(self.rows, kind="stable")
        found = np.searchsorted(self.rows, rows, sorter=order)
        places = order[np.minimum(found, len(order) - 1)]
        return places if (self.rows[places] == rows).all() else None


@final
class DistributedRecords:
    """The records of half number `half`, of which `part` lies in this node's memory.

    Several threads may fetch at once: each has connections of its own, which another process that
    gets the records does not have. What a thread has `fetched`, or what is `staged` for all
    threads, is there until the next one takes its place. With a `window` they read by MPI.
    """

    def __init__(self, half: int, division: Division, part: Part, doors: Doors) -> None:
        self.division, self.part, self.doors = division, part, doors
        self.staged: Fetched | None = None
        self.window: PartWindow | None = None
        self._half = half
        self._of_thread = threading.local()

    def fetch(self, rows: Rows, room: Pixels | None = None) -> Fetched:
        """Fetch the records of pictures `rows` (n,); those of one size to `room` uint8 (n, bytes).

        A connection that has ended is made once more. Raises PeerLost.
        """
        try:
            return self._fetch(rows, room)
        except ConnectionEnded:
            pass
        try:
            return self._fetch(rows, room)
        except ConnectionEnded as error:
            raise PeerLost(str(error)) from error  # the kind by which a failure is known

    def _fetch(self, rows: Rows, room: Pixels | None) -> Fetched:
        is_raw = self.part.begins is None
        if is_raw and room is None:
            room = np.empty((len(rows), self.part.record_bytes), np.uint8)
        records: list[memoryview] = []
        for begin in range(0, len(rows), MOST_ROWS):
            piece = slice(begin, begin + MOST_ROWS)
            if is_raw:
                assert room is not None
                records += self._fetch_raw(rows[piece], room[piece])
            else:
                records += self._fetch_sized(rows[piece])
        return Fetched(rows, records, room if is_raw else None)

    def _fetch_sized(self, rows: Rows) -> list[memoryview]:
        records = [memoryview(b"")] * len(rows)
        for places, client in self._parts_of(rows):
            if client is None:
                found = [self.part.record(row) for row in rows[places].tolist()]
            else:
                found = _received(client, len(places))
            for place, record in zip(places.tolist(), found, strict=True):
                records[place] = record
        return records

    def keep(self, rows: Rows) -> None:
        """Fetch what is not at hand of `rows`, for `record` in this thread."""
        if self._at_hand(rows) is None:
            own = self.division.owners(rows) == self.doors.node
            self._of_thread.fetched = None if own.all() else self.fetch(rows[~own])

    def record(self, row: int) -> memoryview:
        """The record of a picture: at hand, or fetched by itself."""
        if row in self.part:
            return self.part.record(row)
        rows = np.array([row], np.int64)
        if (at_hand := self._at_hand(rows)) is None:
            return self.fetch(rows).records[0]
        found, places = at_hand
        return found.records[int(places[0])]

    def close(self) -> None:
        """End this thread's connections."""
        for client in self._clients().values():
            client.close()
        self._clients().clear()

    def _at_hand(self, rows: Rows) -> tuple[Fetched, Rows] | None:
        """What has all of them, and where they lie in it."""
        for found in (self.staged, getattr(self._of_thread, "fetched", None)):
            if found is not None and (places := found.places(rows)) is not None:
                return found, places
        return None

    def _fetch_raw(self, rows: Rows, room: Pixels) -> list[memoryview]:
        part = self.part
        records = [line.data for line in room]
        for places, client in self._parts_of(rows):
            if client is None:
                own = part.content.reshape(-1, part.record_bytes)
                room[places] = own[rows[places] - part.first]
                continue
            client.sizes(len(places))
            client.receive([records[place] for place in places.tolist()])
        return records

    def _parts_of(self, rows: Rows) -> Iterator[tuple[Rows, PartClient | WindowClient | None]]:
        """The places in `rows` of each node's pictures, and its client; None for this node.

        All nodes are asked before the first one answers, so that they send at once.
        """
        owners = self.division.owners(rows)
        asked: list[tuple[Rows, PartClient | WindowClient | None]] = []
        try:
            for node in np.unique(owners).tolist():
                places, client = np.flatnonzero(owners == node), None
                if node != self.doors.node:
                    client = self._client(node)
                    client.ask(self._half, rows[places])
                asked.append((places, client))
            yield from sorted(asked, key=lambda each: each[1] is not None)
        except BaseException:
            self.close()  # answers that nobody has read may be on their way
            raise

    def _clients(self) -> dict[int, PartClient | WindowClient]:
        clients: dict[int, PartClient | WindowClient] | None = getattr(
            self._of_thread, "clients", None
        )
        if clients is None:
            clients = self._of_thread.clients = {}
        return clients

    def _client(self, node: int) -> PartClient | WindowClient:
        clients = self._clients()
        if node not in clients:
            clients[node] = (
                PartClient(self.doors, node)
                if self.window is None
                else self.window.client(self._half, node, self.part.record_bytes)
            )
        return clients[node]

    def __getstate__(self) -> dict[str, Any]:
        """Without what this process has fetched; `NodeData` leaves out what its threads keep."""
        return {**self.__dict__, "staged": None, "window": None}


def _received(client: PartClient | WindowClient, count: int) -> list[memoryview]:
    """The records that a client has asked for."""
    sizes = client.sizes(count)
    whole, begin, found = memoryview(bytearray(sum(sizes))), 0, []
    for size in sizes:
        found.append(whole[begin : begin + size])
        begin += size
    client.receive(found)
    return found
