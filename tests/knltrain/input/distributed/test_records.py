"""Records by their numbers, from own memory or from peers."""

from __future__ import annotations

import socket
import threading
from typing import Any

import numpy as np
import pytest

from knltrain.data.dataset import Dataset
from knltrain.errors import PeerLost
from knltrain.input.distributed.records import DistributedRecords, Fetched
from knltrain.input.distributed.sources import records_of
from knltrain.input.node_data import NodeData
from knltrain.launch.failure import Failure

from .conftest import Spread


def of_train(dataset: Dataset) -> DistributedRecords:
    found = records_of(dataset.train.source)
    assert found is not None
    return found


def test_places_are_found_whatever_the_order() -> None:
    fetched = Fetched(np.array([7, 3, 7, 5]), [memoryview(b"")] * 4)
    found = fetched.places(np.array([5, 7, 3]))
    assert found is not None
    assert fetched.rows[found].tolist() == [5, 7, 3]
    assert fetched.places(np.array([5, 6])) is None
    assert fetched.places(np.array([9])) is None


@pytest.mark.parametrize("kind", ["raw", "encoded"])
def test_records_are_in_the_order_of_the_rows(
    kind: str, spread: Spread, request: pytest.FixtureRequest
) -> None:
    one, other, last = map(of_train, spread(request.getfixturevalue(kind), 3))
    rows = np.array([40, 0, 13, 14, 27, 1, 40])
    held = [each.part for each in (one, other, last)]
    found = other.fetch(rows)
    expected = [
        next(bytes(part.record(row)) for part in held if row in part) for row in rows.tolist()
    ]
    assert [bytes(record) for record in found.records] == expected


@pytest.mark.parametrize("kind", ["raw", "encoded"])
def test_many_pictures_are_asked_for_in_several_requests(
    kind: str, spread: Spread, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = of_train(spread(request.getfixturevalue(kind))[0])
    rows = np.array([40, 0, 13, 39, 27])
    expected = [bytes(each) for each in records.fetch(rows).records]
    for module in ("records", "server"):
        monkeypatch.setattr(f"knltrain.input.distributed.{module}.MOST_ROWS", 2)
    found = records.fetch(rows)
    assert [bytes(each) for each in found.records] == expected
    assert (found.room is None) == (kind == "encoded")


def test_room_is_used_again(raw: Dataset, spread: Spread) -> None:
    records = of_train(spread(raw)[0])
    room = np.zeros((2, 90), np.uint8)
    found = records.fetch(np.array([40, 0]), room)
    assert found.room is room
    assert bytes(room[1]) == bytes(records.part.record(0))
    assert room[0].any()


def test_what_is_kept_or_staged_is_not_fetched_again(
    encoded: Dataset, spread: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = of_train(spread(encoded)[0])
    rows = np.array([40, 0, 30])
    records.keep(rows)
    records.staged = records.fetch(np.array([33, 34]))

    def never(*_: Any) -> Any:
        raise AssertionError("fetched")

    expected = bytes(records.fetch(np.array([20])).records[0])
    monkeypatch.setattr(DistributedRecords, "fetch", never)
    assert [len(records.record(row)) > 20 for row in (40, 0, 30, 33, 5)] == [True] * 5
    records.keep(np.array([33]))
    with pytest.raises(AssertionError, match="fetched"):
        records.record(20)
    assert expected


def test_threads_fetch_at_once(raw: Dataset, spread: Spread) -> None:
    records = of_train(spread(raw)[0])
    whole = [np.asarray(raw.train.source.picture(row)).tobytes() for row in range(41)]
    wrong: list[int] = []

    def fetch(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(20):
            rows = random.integers(0, 41, 8)
            found = records.fetch(rows).records
            wrong.extend(
                row for row, each in zip(rows.tolist(), found, strict=True) if each != whole[row]
            )

    threads = [threading.Thread(target=fetch, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_another_process_has_connections_of_its_own(encoded: Dataset, spread: Spread) -> None:
    whole = spread(encoded)[0]
    records = of_train(whole)
    records.staged = records.fetch(np.array([40]))
    copy = NodeData.copy_of(whole)
    found = of_train(copy.dataset())
    copy.close()
    assert found.staged is None
    assert bytes(found.record(40)) == bytes(records.record(40))


def test_a_connection_that_has_ended_is_made_once_more(raw: Dataset, spread: Spread) -> None:
    """A whole run may be stopped for so long that its connections end."""
    records = of_train(spread(raw)[0])
    expected = bytes(records.fetch(np.array([40])).records[0])
    for connection in spread.servers[1]._open.copy():  # type: ignore[attr-defined]
        connection.shutdown(socket.SHUT_RDWR)
    assert bytes(records.fetch(np.array([40])).records[0]) == expected


def test_a_node_that_is_gone_is_named(raw: Dataset, spread: Spread) -> None:
    records = of_train(spread(raw)[0])
    records.fetch(np.array([40]))
    spread.servers[1].close()  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(PeerLost, match="node 1, which holds its part") as raised:
            records.fetch(np.array([0, 40]))
        kind = raised.type.__name__
        event = {"kind": kind, "message": "", "step": None, "exit_code": 1, "at_seconds": 0.0}
        assert Failure.from_event(0, event).may_come_from_elsewhere
    assert len(records.fetch(np.array([0])).records) == 1
