"""The collective between nodes, with real processes, gloo and oneCCL."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from affinity import Placement, allowed_cpus
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from knltrain.communication.mpi.library import mpi_library
from knltrain.communication.oneccl.library import installed
from knltrain.errors import ConfigError

from ....forked_python import start_python
from ...ranks import told_as_json

MEMBER = Path(__file__).with_name("node_member.py")
NODES = 3


@pytest.fixture(params=["gloo", "ccl", "mpi", "gaspi"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "ccl" and installed() is None:
        pytest.skip("oneCCL is not installed")
    if request.param in ("mpi", "gaspi"):
        try:
            mpi_library()
        except ConfigError as error:
            pytest.skip(str(error))
    return str(request.param)


def started(
    backend: str, scene: str, nodes: int = NODES, **variables: str
) -> list[tuple[int, list[Any]]]:
    """Exit status of all nodes, and what each printed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, fd = listener.getsockname()[1], listener.fileno()
        members = [
            start_python(
                [
                    *(str(MEMBER), backend, scene, str(node), str(nodes)),
                    *(str(port), str(fd) if node == 0 else "-"),
                ],
                variables,
                pass_fds=(fd,) if node == 0 else (),
            )
            for node in range(nodes)
        ]
    found = []
    for member in members:
        out, _ = member.communicate(timeout=120)
        found.append((member.returncode, told_as_json(out)))
    return found


@pytest.mark.slow
def test_operations_do_what_the_seam_says(backend: str) -> None:
    found = started(backend, "operations")
    for node, (status, lines) in enumerate(found):
        assert status == 0
        assert lines[0] == [node, NODES, backend]
        names = ("sum", "reduced", "broadcast", "gathered", "bytes_of_all", "bytes_for_each")
        told = dict(zip(names, lines[1:], strict=True))
        assert told["sum"] is True
        if node == 0:
            assert told["reduced"] == [6.0, 6.0]
        assert told["broadcast"] == [1.0, 1.0]
        assert told["gathered"] == [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5]]
        assert told["bytes_of_all"] is True
        assert told["bytes_for_each"] is True


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False], ids=["cores kept", "no cores kept"])
@pytest.mark.parametrize("way", ["gloo", "ccl"])
def test_threads_are_on_the_cores_that_are_kept_or_behind_those_that_compute(
    way: str, keeps: bool, two_cores: None
) -> None:
    if way == "ccl" and installed() is None:
        pytest.skip("oneCCL is not installed")
    cpus = allowed_cpus()
    kept = cpus[-1:] if keeps else ()
    place = Placement(0, cpus, 1, (), communication_cpus=kept)
    found = started(way, "threads", 2, **{PLACEMENT_VARIABLE: encode_placement(place)})
    for status, lines in found:
        assert status == 0
        threads = lines[0]
        assert len(threads) >= 2
        if keeps:
            assert all(thread == [list(kept), os.SCHED_OTHER] for thread in threads)
        else:
            assert all(thread == [list(cpus), os.SCHED_BATCH] for thread in threads)


@pytest.mark.slow
def test_sums_in_every_wire_format_are_the_same_bits_everywhere(backend: str) -> None:
    for nodes in (2, 3):
        found = started(backend, "written", nodes)
        assert [status for status, _ in found] == [0] * nodes
        assert [name for name, *_ in found[0][1]] == ["bfloat16", "int8", "float4", "top_k"]
        for _, lines in found:
            for (name, bits, off), (_, first_bits, _) in zip(lines, found[0][1], strict=True):
                assert bits == first_bits
                assert off < (2e-2 if name == "bfloat16" else 1e-4)


@pytest.mark.slow
def test_node_that_does_not_come_to_an_operation_is_waited_for_so_long(backend: str) -> None:
    found = started(backend, "late", 2)
    assert found[0][1][-1][0] == "ExchangeTimeout"
    if backend != "ccl":
        assert f"all_reduce between nodes by '{backend}' took more than 1 s" in found[0][1][-1][1]


@pytest.mark.slow
def test_node_that_is_killed_is_lost(backend: str) -> None:
    if backend in ("mpi", "gaspi"):
        pytest.skip("MPI does not tell of the dead: the processes that start workers do")
    found = started(backend, "killed", 2)
    assert found[0][1][-1][0] == "PeerLost"


def test_backend_that_torch_was_built_without_is_refused() -> None:
    status, lines = started("torch's mpi", "operations", 1)[0]
    assert status == 1
    assert lines[-1][0] == "CollectiveError"
    assert "cannot reach the others by 'mpi'" in lines[-1][1]
    assert "exchange.between_nodes names another way" in lines[-1][1]
