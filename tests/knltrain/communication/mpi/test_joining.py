from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from knltrain.communication.mpi import joining
from knltrain.communication.mpi.joining import join_mpi, leave_mpi
from knltrain.communication.mpi.library import MpiLibrary
from knltrain.communication.rendezvous.key_value_store import InMemoryStore
from knltrain.errors import CollectiveError, ConfigError, ExchangeTimeout

from ...hosts import hosts_or_skip
from ...mpi_ranks import MPIEXEC

PROGRAM = Path(__file__).with_name("rank_of_mpi.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}


def ends(processes):
    """What each has printed, as lines, and its status."""
    found = [process.communicate(timeout=60)[0].splitlines() for process in processes]
    return [(lines, process.returncode) for lines, process in zip(found, processes, strict=True)]


def well(rank, ranks, on_node):
    total = float(10 * sum(range(1, ranks + 1)))
    lines = [f"joined {rank} {ranks} {on_node} True", f"read {total}", "left True"]
    return lines, 0


@pytest.mark.parametrize("ranks", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_started_plainly_are_the_ranks_they_were_given(start, ranks):
    assert ends(start(ranks)) == [well(rank, ranks, ranks) for rank in range(ranks)]


def test_variables_of_a_launcher_whose_job_this_is_not_do_no_harm(start):
    foreign = {
        "PMI_RANK": "0",
        "PMI_SIZE": "1",
        "PMI_FD": "9",
        "MPI_LOCALRANKID": "0",
        "MPI_LOCALNRANKS": "1",
        "I_MPI_PMI_LIBRARY": "/nowhere/libpmi2.so",
        "I_MPI_PIN_INFO": "1",
    }
    assert ends(start(2, "launched", **foreign)) == [well(rank, 2, 2) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("places", [(0, 1), (0, 0, 1), pytest.param((0, 1, 0), id="interleaved")])
def test_ranks_on_several_hosts_are_one_job_by_tcp(start, places):
    with hosts_or_skip(2) as made:
        before = {rank: made.way(place) for rank, place in enumerate(places)}
        processes = start(len(places), before=before)
        expected = [
            well(rank, len(places), places.count(place)) for rank, place in enumerate(places)
        ]
        assert ends(processes) == expected


@pytest.mark.slow
def test_a_rank_that_never_comes_is_named_and_nothing_hangs(start):
    found = ends(start(4, limit_seconds=1.0, present=[0, 2]))
    for lines, status in found:
        assert status == 1
        assert lines[0].startswith("ExchangeTimeout waited")
        assert "for rank 1, 3 of 4 at the start of MPI" in lines[0]


def test_a_process_that_fails_keeps_its_status(start):
    assert [status for _, status in ends(start(2, "fails"))] == [7, 7]


def test_a_rank_that_aborts_ends_with_its_status_and_the_other_one_by_itself(start):
    found = ends(start(2, "aborts", end_seconds=0.5))
    assert found[0] == ([*well(0, 2, 2)[0][:2], "left False"], 0)
    assert found[1] == (well(1, 2, 2)[0][:2], 9)


def test_the_end_of_mpi_does_not_wait_for_the_dead(start):
    processes = start(3, "waits", end_seconds=0.5)
    for process in processes:
        assert process.stdout.readline().startswith("joined")
        assert process.stdout.readline().startswith("read")
    processes[1].kill()
    processes[1].wait()
    for rank in (0, 2):
        processes[rank].stdin.write("\n")
        processes[rank].stdin.flush()
    for rank in (0, 2):
        assert processes[rank].stdout.readline() == "left False\n"
        assert processes[rank].wait(20) == 0


@pytest.mark.slow
def test_what_a_rank_that_dies_while_mpi_begins_leaves_in_memory_is_removed(start):
    first, second = start(2, "dies", limit_seconds=2.5)
    ((_, status), (lines, other_status)) = ends([first, second])
    if status == 0:
        pytest.skip("this library makes no files there")
    assert (status, other_status) == (-signal.SIGKILL, 1)
    assert lines[-1].startswith("ExchangeTimeout")


@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
def test_a_job_of_the_launcher_is_used_where_it_is_the_one_asked_for(start, tmp_path):
    shell = 'exec "$0" "$1" $PMI_RANK $PMI_SIZE "$2" launched 60 60'
    found = subprocess.run(
        [MPIEXEC, "-n", "2", "sh", "-c", shell, sys.executable, str(PROGRAM), str(tmp_path)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = [*well(0, 2, 2)[0], *well(1, 2, 2)[0]]
    assert sorted(found.stdout.splitlines()) == sorted(expected)
    assert found.returncode == 0


@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
def test_children_of_a_process_that_a_launcher_has_started_are_a_job_of_their_own(start, tmp_path):
    one = f'"$0" "$1" %d 2 "{tmp_path}" launched 60 60'
    found = subprocess.run(
        [
            *[MPIEXEC, "-n", "1", sys.executable, "-c"],
            "import subprocess, sys; c = [subprocess.Popen(['sh', '-c', w, sys.executable, "
            "sys.argv[1]]) for w in sys.argv[2:]]; sys.exit(max(p.wait() for p in c))",
            *[str(PROGRAM), one % 0, one % 1],
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = [*well(0, 2, 2)[0], *well(1, 2, 2)[0]]
    assert sorted(found.stdout.splitlines()) == sorted(expected), found.stderr
    assert found.returncode == 0


@pytest.fixture
def a_library(monkeypatch):
    """a_library(version): has this process find a library that says so of itself, and begins."""

    def found(version):
        functions = SimpleNamespace(MPI_Initialized=lambda flag: 0)
        monkeypatch.setattr(joining, "mpi_library", lambda: MpiLibrary(functions, version))
        monkeypatch.setattr(joining, "_MEMBERSHIP", [])

    return found


def test_open_mpi_is_refused_where_its_launcher_has_not_started_the_ranks(a_library):
    a_library("Open MPI v5.0.11")
    with pytest.raises(
        ConfigError, match=r"Open MPI v5.* one of 2 ranks: start them by its mpiexe"
    ):
        join_mpi(0, 2, InMemoryStore(), 1.0)


def test_ranks_with_different_libraries_are_told_so(a_library):
    a_library("MPICH Version: 5.0.2")
    store = InMemoryStore()
    other = {"node": "b", "launched": False, "library": "Intel(R) MPI Library 2021", "job": "x"}
    store.put("fence 1 1", json.dumps(other))
    with pytest.raises(ConfigError, match=r"rank 0 has MPICH .*5.0.2, rank 1 has Intel\(R\) MPI"):
        join_mpi(0, 2, store, 5.0)


def test_a_process_joins_once_also_where_it_did_not_come_about(a_library):
    a_library("MPICH Version: 5.0.2")
    with pytest.raises(ExchangeTimeout, match="for rank 1 of 2"):
        join_mpi(0, 2, InMemoryStore(), 0.05)
    with pytest.raises(ConfigError, match="only once"):
        join_mpi(0, 2, InMemoryStore(), 0.05)
    assert not leave_mpi(0.05)


def test_a_rank_beyond_the_ranks_is_refused():
    with pytest.raises(ConfigError, match="rank 2 of 2: expected one of 0 to 1"):
        join_mpi(2, 2, InMemoryStore(), 1.0)


def test_to_leave_without_having_joined_is_nothing():
    assert leave_mpi(0.0)


@pytest.mark.parametrize("word", ["[" * 5000, "", "[]", '{"node": 1}', "{}"])
def test_rank_that_brings_no_card_is_told(a_library, word):
    a_library("MPICH Version: 5.0.2")
    store = InMemoryStore()
    store.put("fence 1 1", word)
    with pytest.raises(CollectiveError, match=r"rank 1 brings no card: .*from one installation"):
        join_mpi(0, 2, store, 5.0)
