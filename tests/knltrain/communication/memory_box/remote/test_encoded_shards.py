"""Buffers of several real ranks that are read and added to in fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from knltrain.communication.internode.wire.formats import Bfloat16
from knltrain.communication.memory_box.remote import encoded_shards
from knltrain.communication.memory_box.remote.encoded_shards import EncodedShards
from knltrain.errors import KnltrainError

from ....hosts import hosts_or_skip
from ....mpi_ranks import OVER_TCP, expect_success, needs_mpi, run_ranks_on

Run = Callable[..., str]

ALL = (
    "encoded_contributions_of_all_add_up",
    "encoded_contributions_to_some_ranks_add_up",
    "far_shards_are_read_as_they_are_encoded",
    "what_is_near_now_takes_its_residual",
)

pytestmark = needs_mpi


@pytest.mark.slow
@pytest.mark.parametrize("over", [pytest.param({}, id="shm"), pytest.param(OVER_TCP, id="tcp")])
def test_values_arrive_as_they_are_encoded_and_nothing_is_lost(
    run: Run, over: dict[str, str]
) -> None:
    run(*ALL, over=over)


@pytest.mark.slow
def test_it_holds_between_hosts(tmp_path: Path) -> None:
    with hosts_or_skip(2) as hosts:
        program = str(Path(__file__).with_name("programs.py"))
        expect_success(run_ranks_on(hosts, tmp_path, 4, program, ALL[0], *ALL[2:]))


def test_a_shard_that_no_message_holds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Formats:
        added = read = Bfloat16(None)  # type: ignore[arg-type]

    shards = object.__new__(EncodedShards)
    shards._formats = Formats()  # type: ignore[assignment]
    with pytest.raises(KnltrainError, match=r"a shard of 1073741824 .* .exchange.servers"):
        shards._far_shard(1, slice(5, 5 + 2**30))
    monkeypatch.setattr(encoded_shards, "LARGEST_MESSAGE", 64)
    assert shards._far_shard(1, slice(0, 32)).given.nbytes == 64
