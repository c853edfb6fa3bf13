"""What ranks do with a box across nodes: `mpiexec -n 3 python -m mpi4py programs.py NAME...`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from affinity import MemoryPlan, Placement, allowed_cpus
from affinity.process.memory_policy import allowed_memories
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from knltrain.communication.internode.wire.wire_format import CenterFormats, row_for
from knltrain.communication.memory_box.remote import RemoteBox, RemoteBuffer, Vector
from knltrain.communication.memory_box.remote.encoded_shards import EncodedShards
from knltrain.communication.memory_box.remote.layout import EVENTS_BEGIN, SLOTS, slot_word
from knltrain.communication.memory_box.remote.shard_server import (
    ADD,
    ADDED,
    CONTENT,
    READ,
    ShardServer,
)
from knltrain.communication.mpi.placed_window import window_remarks
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.errors import ExchangeTimeout, SegmentError
from tests.knltrain.communication.internode.wire.formats import FORMATS

MPI = load_mpi()
WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
ROOM = 2**22
SIZE = 50_000


def make(servers: list[int] | None = None, timeout_seconds: float = 30.0) -> RemoteBox:
    return RemoteBox.create(WORLD, ROOM, servers, timeout_seconds)


def shared(box: RemoteBox, size: int = SIZE, dtype: Any = np.float32) -> Vector:
    """A buffer that rank 0 has made and all have opened."""
    return box.open(WORLD.bcast(box.create_buffer(size, dtype).key if RANK == 0 else None))


def content(buffer: Vector) -> np.ndarray:
    found = np.full(buffer.size, 99, buffer.dtype)
    buffer.read(found)
    return found


def pattern(dtype: Any = np.float32) -> np.ndarray:
    return (np.arange(SIZE) % 7 + 1).astype(dtype)


def accumulates_add_up(servers: list[int] | None, private: bool = True) -> None:
    rounds = 20
    with make(servers) as box:
        for dtype in (np.float32, np.int64):
            center, own = shared(box, SIZE, dtype), box.create_buffer(SIZE, dtype, private=private)
            own.write(pattern(dtype))
            WORLD.Barrier()
            for _ in range(rounds):
                center.accumulate(own)
            WORLD.Barrier()
            assert np.array_equal(content(center), RANKS * rounds * pattern(dtype))


def formats_of(added: str) -> CenterFormats:
    return CenterFormats(FORMATS[added](SIZE), FORMATS["bfloat16"](SIZE))


def encoded(buffer: Vector, near: list[int], added: str = "bfloat16") -> EncodedShards:
    assert isinstance(buffer, RemoteBuffer)
    return EncodedShards(MPI, WORLD, buffer, near, formats_of(added), 30.0)


def encoded_contributions_of_all_add_up(servers: list[int] | None = None) -> None:
    """Near and far, all at once, beside one who adds in float32; small integers stay whole."""
    rounds, values = 20, pattern()
    with make(servers) as box:
        center, own = shared(box), box.create_buffer(SIZE, private=True)
        own.write(pattern())
        shards = encoded(center, [RANK, (RANK + 1) % RANKS])
        WORLD.Barrier()
        for _ in range(rounds):
            shards.encode(values)
            shards.add(values)
            center.accumulate(own)
        WORLD.Barrier()
        assert np.array_equal(content(center), 2 * RANKS * rounds * pattern())
        WORLD.Barrier()
        shards.close()


def encoded_contributions_to_some_ranks_add_up() -> None:
    encoded_contributions_of_all_add_up([0, 2])


def far_shards_are_read_as_they_are_encoded() -> None:
    with make() as box:
        center = shared(box)
        assert isinstance(center, RemoteBuffer)
        values = np.random.default_rng(1).standard_normal(SIZE, np.float32)
        if RANK == 0:
            center.write(values)
        shards, found = encoded(center, [RANK]), np.full(SIZE, 99, np.float32)
        WORLD.Barrier()
        shards.read(found)
        bits = values.view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)
        for owner, part in zip(center.owners, center.parts, strict=True):
            assert np.array_equal(found[part], (values if owner == RANK else rounded)[part])
        WORLD.Barrier()
        shards.close()


def what_is_near_now_takes_its_residual() -> None:
    """Of far shards the residual stays at their owner's place; values plus residuals add up."""
    with make() as box:
        center = shared(box)
        assert isinstance(center, RemoteBuffer)
        near = center.parts[RANK]
        shards = encoded(center, [RANK], "int8")
        values = np.random.default_rng(RANK).standard_normal(SIZE, np.float32)
        shards.residual[near] = 3
        given = values + shards.residual
        shards.encode(values)
        assert np.array_equal(values[near], given[near])
        assert not shards.residual[near].any()
        shards.add(values)
        WORLD.Barrier()
        arrived, total = content(center).astype(np.float64), np.zeros(SIZE)
        WORLD.Allreduce(given.astype(np.float64), total)
        rest = np.zeros(SIZE)
        WORLD.Allreduce(shards.residual.astype(np.float64), rest)
        assert rest.any()
        np.testing.assert_allclose(arrived + rest, total, atol=1e-5)
        WORLD.Barrier()
        shards.close()


def server_adds_and_sends_a_shard() -> None:
    """Rank 0 serves what lies there to the others, who write to it one after another."""
    with make([0]) as box:
        center, formats, group = shared(box), formats_of("int8"), WORLD.Dup()
        assert isinstance(center, RemoteBuffer)
        server = None
        if RANK == 0:
            server = ShardServer(MPI, group, center, slice(0, SIZE), formats, 30.0)
        else:
            row, found = (row_for(each.bytes_for(SIZE)) for each in (formats.added, formats.read))
            formats.added.encode(pattern(), np.zeros(SIZE, np.float32), row)
            nothing = np.zeros(0, np.uint8)
            for _ in range(5):
                group.Send(row, 0, ADD)
                group.Recv(nothing, 0, ADDED)
            added, total = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
            formats.added.decode_add(row, added)
            WORLD.Barrier()
            group.Send(nothing, 0, READ)
            group.Recv(found, 0, CONTENT)
            formats.read.decode_add(found, total)
            np.testing.assert_allclose(total, 5 * (RANKS - 1) * added, rtol=2**-8)
        if RANK == 0:
            WORLD.Barrier()
        WORLD.Barrier()
        if server is not None:
            server.check()
            server.stop()
            assert not server._thread.is_alive()
        group.Free()


def server_that_is_stopped_or_fails_says_so() -> None:
    """An error that ends it is that of the next check; who is stopped in time has none."""
    with make([0]) as box:
        center, formats, group = shared(box), formats_of("int8"), WORLD.Dup()
        assert isinstance(center, RemoteBuffer)
        if RANK == 0:
            broken = SimpleNamespace(bytes_for=formats.read.bytes_for)
            failing = CenterFormats(formats.added, cast("Any", broken))
            server = ShardServer(MPI, group, center, slice(0, SIZE), failing, 30.0)
            WORLD.Barrier()
            server._thread.join(30)
            with pytest.raises(AttributeError, match="encode"):
                server.check()
            server.stop()
            server = ShardServer(MPI, group, center, slice(0, SIZE), formats, 30.0)
            server.stop()
            server.check()
        else:
            if RANK == 1:
                group.Send(np.zeros(0, np.uint8), 0, READ)
            WORLD.Barrier()
        WORLD.Barrier()
        group.Free()


def window_is_where_its_placement_wants_it() -> None:
    node = allowed_memories()[0]
    memory = MemoryPlan("strict", "bind", (node,))
    place = Placement(RANK, allowed_cpus(), 1, (node,), memory=memory)
    os.environ[PLACEMENT_VARIABLE] = encode_placement(place)
    with make([0]):
        told = [remark for remark in window_remarks() if "the center's shard on node" in remark]
        assert len(told) == (1 if RANK == 0 else 0), window_remarks()
        assert all(remark.endswith(f" on node {node}") for remark in told)
        assert all(
            len(set(remark.split(" of the center")[0].split(" of "))) == 1 for remark in told
        )


def accumulates_on_all_ranks_add_up() -> None:
    accumulates_add_up(None)


def accumulates_on_some_ranks_add_up() -> None:
    accumulates_add_up([2, 0])


def accumulates_of_buffers_on_servers_add_up() -> None:
    accumulates_add_up([1], private=False)


def scaling_loses_nothing_that_others_add() -> None:
    """By 1, which rewrites what it has read: what came between would be lost."""
    rounds = 40
    with make([0, 1]) as box:
        center, own = shared(box), box.create_buffer(SIZE, private=True)
        nothing = box.create_buffer(SIZE, private=True)
        own.write(pattern())
        WORLD.Barrier()
        for turn in range(rounds):
            center.accumulate(own)
            if RANK == 0:
                center.scale(1.0)
            elif RANK == 1 and turn % 4 == 0:
                center.axpby(1.0, nothing, 1.0)
        WORLD.Barrier()
        assert np.array_equal(content(center), RANKS * rounds * pattern())


def event_wakes_who_waits_and_shows_what_was_written() -> None:
    with make([1]) as box:
        center = shared(box)
        if RANK == 0:
            assert center.wait(3, timeout_seconds=20) == 1
            assert np.all(content(center) == 5)
        elif RANK == 2:
            time.sleep(0.2)
            center.write(np.full(SIZE, 5, np.float32))
            center.notify(3)


def who_announces_sees_itself_and_in_time_all_others() -> None:
    with make() as box:
        steps = shared(box, RANKS + 1, np.int64)
        for step in range(1, 20):
            seen = steps.announce(step, RANK)
            assert seen[RANK] == step
            assert seen[RANKS] == 0
            assert np.all(seen <= 19)
        WORLD.Barrier()
        assert steps.announce(20 + RANK, RANK)[:RANKS].min() >= 19
        WORLD.Barrier()
        assert np.array_equal(content(steps), [*(20 + rank for rank in range(RANKS)), 0])
        with pytest.raises(SegmentError, match="elements 4 to 5 are not all in a buffer of 4"):
            steps.announce(1, RANKS + 1)


def of_two_who_announce_at_once_one_sees_the_other() -> None:
    """Where all words lie at one owner, and where each lies at another one."""
    with make() as box:
        for apart in (1, 8):
            steps = shared(box, apart * RANKS, np.int64)
            assert isinstance(steps, RemoteBuffer)
            assert len(steps.servers) == (1 if apart == 1 else RANKS)
            for step in range(1, 200):
                WORLD.Barrier()
                seen = steps.announce(step, apart * RANK)[::apart]
                missed = np.array(WORLD.allgather(seen)) < step
                assert not (missed & missed.T).any(), missed


def threads_work_beside_each_other() -> None:
    """As in ShmCaffe-A, where a thread sends while another reads."""
    rounds = 20
    with make() as box:
        center, own = shared(box), box.create_buffer(SIZE, private=True)
        own.write(np.ones(SIZE, np.float32))

        def send() -> None:
            for _ in range(rounds):
                center.accumulate(own)

        sending = threading.Thread(target=send)
        sending.start()
        last = 0.0
        while sending.is_alive():
            found = content(center)
            assert found.min() >= last
            last = float(found.min())
        sending.join()
        WORLD.Barrier()
        assert np.all(content(center) == RANKS * rounds)


def owner_that_computes_is_reached() -> None:
    """Over TCP somebody must call MPI at the owner, whose program does not."""
    with make([0]) as box:
        center = shared(box)
        if RANK == 0:
            words = np.frombuffer(box._window._window.tomemory(), np.int64)
            event = slot_word(center.key % SLOTS) + EVENTS_BEGIN
            end = time.monotonic() + 30
            while not words[event] and time.monotonic() < end:
                sum(range(10_000))
            assert words[event]  # while it was still at it
        elif RANK == 1:
            own = box.create_buffer(SIZE, private=True)
            own.write(pattern())
            center.accumulate(own)
            center.scale(2.0)
            assert np.array_equal(content(center), 2 * pattern())
            center.notify(0)


def buffers_come_and_go() -> None:
    """Made and freed by all at once, they never lie on each other."""
    with make() as box:
        for turn in range(10):
            made = box.create_buffer(1000 + 100 * RANK)
            assert not content(made).any()
            mine = np.full(made.size, 10 * turn + RANK, np.float32)
            made.write(mine)
            assert np.array_equal(content(box.open(made.key)), mine)
            made.free()
        WORLD.Barrier()
        whole = box.create_buffer(RANKS * ROOM // 4 - 1024) if RANK == 0 else None
        assert whole is None or not content(whole).any()  # as large as the box


def who_has_a_shard_alone_for_too_long_is_named() -> None:
    box = make()
    center = shared(box)
    box._window.timeout_seconds = 1.0
    assert isinstance(center, RemoteBuffer)
    if RANK == 1:
        with center._locks.alone(0):
            WORLD.Barrier()
            WORLD.recv(source=0)
    else:
        WORLD.Barrier()
    if RANK == 0:
        own = box.create_buffer(SIZE, private=True)
        attempts: list[Callable[[], object]] = [
            lambda: center.accumulate(own),
            lambda: center.scale(1.0),
            center.free,
        ]
        for attempt in attempts:
            with pytest.raises(
                ExchangeTimeout, match="waited 1 s in vain for rank 1, alone at work"
            ):
                attempt()
        WORLD.send(None, 1)
    WORLD.Barrier()
    center.accumulate(box.create_buffer(SIZE, private=True))  # nobody has left a lock
    box.close()


def rank_that_does_not_come_ends_the_wait() -> None:
    if RANK == 0:
        with pytest.raises(ExchangeTimeout, match=r"waited 0\.5 s in vain for the other ranks to"):
            make(timeout_seconds=0.5)
        print("told", flush=True)
        os._exit(0)  # MPI would wait for the others
    time.sleep(60)


def ranks_that_differ_are_told() -> None:
    with pytest.raises(SegmentError, match="or their servers differ: expected the same for all"):
        make([0] if RANK else [1])
    with pytest.raises(SegmentError, match=r"one of \d+, or their servers differ"):
        RemoteBox.create(WORLD, ROOM * (1 + RANK))
    for wrong in ([], [RANKS], [-1], [0, 0]):
        with pytest.raises(SegmentError, match=rf"expected ranks of 0 to {RANKS - 1}"):
            make(wrong)
    with pytest.raises(SegmentError, match="bytes_per_server = 0: expected 1 at least"):
        RemoteBox.create(WORLD, 0)
    with pytest.raises(SegmentError, match=r"rank 0 has no room for \d+ bytes of the box"):
        RemoteBox.create(WORLD, 2**50)


def closed_box_says_so() -> None:
    box = make()
    made, own = shared(box), box.create_buffer(SIZE, private=True)
    box.close()
    box.close()
    uses: list[Callable[[], object]] = [
        lambda: box.create_buffer(SIZE),
        lambda: box.open(made.key),
        lambda: content(made),
        lambda: made.accumulate(own),
        lambda: made.wait(0),
    ]
    for use in uses:
        with pytest.raises(SegmentError, match="the box is closed: expected an open one"):
            use()


def boxes_are_independent() -> None:
    with make() as one, make([1]) as other:
        key = shared(one).key
        shared(other)
        with pytest.raises(SegmentError, match="opens no buffer"):
            other.open(key)


def error_ends_the_process_without_waiting_for_others() -> None:
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="mine"), make() as box:
        shared(box)
        raise RuntimeError("mine")
    assert time.monotonic() - begin < 20
    with pytest.raises(SegmentError, match="is closed"):
        box.create_buffer(1)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
        WORLD.Barrier()
