"""Processes that start workers of the same run: what they agree on, hand over and hear."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knltrain.cluster.task import Task
from knltrain.config import RunConfig, to_toml
from knltrain.errors import ConfigError, PeerLost, RunFolderError
from knltrain.launch.job_peers import JobPeers, _described
from knltrain.launch.node_share import ALONE, expected_node_share
from knltrain.launch.run_folder import CONFIG
from knltrain.launch.training import job_peers_of

LIMIT_SECONDS = 120


def config(**changed: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "network": {"name": "lenet"},
            "data": {"name": "digits"},
            "train": {"steps": 1, "batch": 8},
            "learning_rate": {"base": 0.1},
            **changed,
        }
    )


def together(
    work: Callable[[JobPeers], Any],
    *configs: RunConfig,
    nodes: tuple[str, ...] = ("a", "b"),
) -> list[Any]:
    """What each of as many tasks as ``nodes`` finds, or raises."""
    job, count = secrets.token_hex(4), len(nodes)

    monkeypatch = pytest.MonkeyPatch()  # threads have the same cpus, tasks must not
    numbers = itertools.count()
    monkeypatch.setattr("knltrain.launch.job_peers.allowed_cpus", lambda: (next(numbers),))

    def one(rank: int) -> Any:
        on_node = [number for number in range(count) if nodes[number] == nodes[rank]]
        task = Task(
            *("tests", rank, count, on_node.index(rank), len(on_node), nodes[rank], job),
            "127.0.0.1",
        )
        chosen = configs[rank] if configs else config()
        try:
            with job_peers_of(task, expected_node_share(task), chosen) as job_peers:
                assert job_peers is not None
                return work(job_peers)
        except Exception as error:  # noqa: BLE001  (for the tests to look at)
            return error

    found: list[Any] = [None] * count

    def find(rank: int) -> None:
        found[rank] = one(rank)

    # Not a pool: that would wait for a task that hangs, whatever the test's timeout.
    threads = [threading.Thread(target=find, args=(rank,), daemon=True) for rank in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_SECONDS)
            assert not thread.is_alive()
    finally:
        monkeypatch.undo()
    return found


def test_process_that_starts_all_has_no_company() -> None:
    with job_peers_of(None, ALONE, config()) as job_peers:
        assert job_peers is None


def test_all_hear_where_the_run_folder_is_and_where_workers_meet(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(to_toml(config()))

    def work(job_peers: JobPeers) -> Any:
        folder, point = job_peers.settle(tmp_path if job_peers.node_share.leads else None)
        assert (point.fd is not None) == job_peers.node_share.leads
        return folder, point.host, point.port, point.own_address

    first, other = together(work)
    assert first == other
    assert first[0] == tmp_path
    assert (first[1], first[3]) == ("127.0.0.1", "127.0.0.1")


def test_files_of_weights_must_be_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where a.pt is another file for the second task, after a while
    contents, one_at_a_time = iter((b"one", b"other")), threading.Lock()

    def described(chosen: RunConfig) -> dict[str, Any]:
        with one_at_a_time:
            Path("a.pt").write_bytes(next(contents))
            return _described(chosen)

    monkeypatch.setattr("knltrain.launch.job_peers._described", described)
    chosen = config(network={"name": "lenet", "weights": "a.pt"})
    error = together(lambda _: None, chosen, chosen)[0]
    assert isinstance(error, ConfigError)
    assert "another configuration" in str(error)
    assert "network.weights (digest) = " in str(error)


def test_a_networks_description_may_lie_anywhere_but_must_be_the_same(tmp_path: Path) -> None:
    files = [tmp_path / name / "network.json" for name in ("one", "same", "other")]
    for file, text in zip(files, ("{}", "{}", "[]"), strict=True):
        file.parent.mkdir()
        file.write_text(text)
    one, same, other = (config(network={"name": str(file)}) for file in files)
    assert together(lambda _: None, one, same) == [None, None]
    error = together(lambda _: None, one, other)[0]
    assert isinstance(error, ConfigError)
    assert "network.name (digest) = " in str(error)
    assert "network.name = " not in str(error)


@pytest.mark.parametrize("there", [None, "another run's"])
def test_run_folder_that_is_not_shared_is_refused_with_the_way_out(
    tmp_path: Path, there: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / CONFIG).write_text(to_toml(config()))
    monkeypatch.setattr("knltrain.launch.job_peers.SEEN_SECONDS", 0.1)

    def work(job_peers: JobPeers) -> Any:
        if not job_peers.node_share.leads:
            _, told = job_peers.meeting_point(None)
            assert told["run_folder"] == str(tmp_path)
            from knltrain.launch.job_peers import _check_seen

            elsewhere = tmp_path / "elsewhere"
            elsewhere.mkdir()
            if there is not None:
                (elsewhere / CONFIG).write_text(there)
            _check_seen(elsewhere, told["config"])
        return job_peers.settle(tmp_path)

    error = together(work)[1]
    assert isinstance(error, RunFolderError)
    assert "is not seen on" in str(error)
    assert "--set runs_folder=" in str(error)


@pytest.mark.slow
def test_tasks_of_a_node_get_the_memory_of_its_first_one() -> None:
    def work(job_peers: JobPeers) -> bytes:
        if job_peers.node_share.share:
            (fd,) = job_peers.memory_fds(1)  # before it is there
            found = os.pread(fd, 10, 0)
            os.close(fd)
            job_peers._found().leave()
            return found
        fd = os.memfd_create("memory")
        os.write(fd, f"of node {job_peers.node_share.node}".encode())
        time.sleep(0.2)
        (keeper,) = job_peers.doorkeepers((fd,))
        ready = select.select([job_peers.lost_fd], [], [], 1.0)[0]
        assert not ready
        keeper.close()
        os.close(fd)
        return b""

    found = together(work, nodes=("a", "a"))
    assert found == [b"", b"of node 0"]


def test_waiting_for_the_memory_ends_with_its_maker() -> None:
    def work(job_peers: JobPeers) -> Any:
        if job_peers.node_share.share:
            return job_peers.memory_fds(1)
        raise RunFolderError("no room in /dev/shm")

    found = together(work, nodes=("a", "a"))
    assert isinstance(found[1], PeerLost)
    assert "no room in /dev/shm" in str(found[1])


def test_configurations_that_differ_are_refused_by_all_with_the_same_words() -> None:
    found = together(lambda _: None, config(), config(seed=7))
    assert [type(error) for error in found] == [ConfigError, ConfigError]
    assert str(found[0]) == str(found[1])
    assert "seed = 7 instead of 1" in str(found[0])


def test_others_hear_of_a_failure_before_what_failed_has_come_to_its_end() -> None:
    heard = threading.Event()

    def work(job_peers: JobPeers) -> str | None:
        if job_peers.node_share.node == 1:
            job_peers.give_up("worker 3 failed: killed")
            assert heard.wait(60)
            return None
        assert select.select([job_peers.lost_fd], [], [], 60)[0]
        heard.set()
        return str(job_peers.lost)

    told, _ = together(work)
    assert told.endswith("is gone: worker 3 failed: killed")


def test_process_that_stands_still_is_lost_and_named() -> None:
    stood_still, noticed = threading.Event(), threading.Event()

    def work(job_peers: JobPeers) -> str | None:
        watch = job_peers._found()._watch()
        assert watch is not None
        job_peers.show_life(0.5 if job_peers.node_share.leads else 60.0)
        (link,) = watch._links_by_rank().values()
        assert watch._heartbeat is not None
        while not link.identity:
            time.sleep(0.01)
        if job_peers.node_share.node == 1:
            watch._heartbeat.close()
            stood_still.set()
            assert noticed.wait(60)
            return None
        assert stood_still.wait(60)
        assert select.select([job_peers.lost_fd], [], [], 60)[0]
        noticed.set()
        return str(job_peers.lost)

    told, _ = together(work)
    says = r"task 1 \(.*\) is gone: its process \d+ has given no sign of life for 0\.5 s: "
    assert re.match(says, told), told


def test_others_hear_of_a_failure_by_a_descriptor_and_in_words() -> None:
    def work(job_peers: JobPeers) -> Any:
        if job_peers.node_share.node == 1:
            raise RunFolderError("its disk is full")
        assert select.select([job_peers.lost_fd], [], [], 10)[0]
        return str(job_peers.lost)

    assert together(work)[0].endswith("is gone: its disk is full")
