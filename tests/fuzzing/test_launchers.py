"""What launchers tell: the environment, lists of hosts, PMI, events of workers."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hypothesis import strategies as st

from knltrain.cluster.host_list import MOST_HOSTS, hosts_of
from knltrain.cluster.mpi_job import launched_mpi_job
from knltrain.cluster.task import this_task
from knltrain.cluster.worker import worker_identity
from knltrain.communication.mpi.process_manager import ProcessManager
from knltrain.communication.rendezvous.fence import Fence
from knltrain.communication.rendezvous.key_value_store import InMemoryStore
from knltrain.errors import ConfigError, KnltrainError
from knltrain.launch.events import EventReader
from knltrain.launch.failure import Failure

from .rounds import altered, fuzzed, texts

VALUES = ["0", "1", "2", "4", "²", "٣", "n[1-2]", "2(x3),1", "", "a", "-1", "n01,n02", "+1", "1_0"]
LAUNCHERS = {
    "own": ("RANK", "COUNT", "JOB", "FIRST_HOST"),
    "torchrun": ("TORCHELASTIC_RUN_ID", "GROUP_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "slurm": ("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE"),
}
NAMES = [
    *(f"KNLTRAIN_TASK_{name}" for name in LAUNCHERS["own"]),
    *(*LAUNCHERS["torchrun"], "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    *("PMI_RANK", "PMI_SIZE", "PMI_FD", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    *(*LAUNCHERS["slurm"], "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST"),
    *("SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_JOB_ID"),
]
SLURM = {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NODELIST": "n[1-2]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMI_RANK": "0",
    "PMI_SIZE": "2",
    "PMI_FD": "0",
}
ENVIRONMENTS = st.builds(
    lambda first, more: {**first, **more},
    st.sampled_from([{}, SLURM, OPEN_MPI]),
    st.dictionaries(st.sampled_from(NAMES), texts(VALUES), max_size=8),
)
IDENTITY = {
    "KNLTRAIN_RANK": "0",
    "KNLTRAIN_WORKERS": "2",
    "KNLTRAIN_RUN_FOLDER": "runs/a",
    "KNLTRAIN_EVENTS_FD": "7",
    "KNLTRAIN_SEGMENT_FDS": "3,4",
    "KNLTRAIN_THREADS": "1",
    "KNLTRAIN_RESUME": "0",
    "KNLTRAIN_MEETING_POINT": '{"host": "a", "port": 1, "own_address": "b", "fd": null}',
    "KNLTRAIN_REQUESTS": "[9, 0]",
    "KNLTRAIN_DATA": "[5]",
    "KNLTRAIN_BATCHES": "[6, 0, 2]",
    "KNLTRAIN_INITIAL": "[11, 12]",
}


@fuzzed(ENVIRONMENTS, examples=80)
def test_environment_of_any_launcher(_: Path, environment: dict[str, str]) -> None:
    try:
        task = this_task(environment)
        assert task is None or task.rank < task.tasks
    except ConfigError:
        pass
    launched_mpi_job(environment)


def test_identity_that_examples_alter_is_whole() -> None:
    assert worker_identity(IDENTITY).requests == (9, 0)


@fuzzed(st.dictionaries(st.sampled_from(list(IDENTITY)), texts(list(IDENTITY.values()))))
def test_identity_of_a_worker(_: Path, changed: dict[str, str]) -> None:
    with contextlib.suppress(KnltrainError):
        worker_identity({**IDENTITY, **changed})


@fuzzed(texts(["n[001-003,7],login", "a[1-2]b[3-4]", "n1,n2", "[1],[2-3]", "n[0-99999999]"]))
def test_list_of_hosts(_: Path, text: str) -> None:
    try:
        assert len(hosts_of(text)) <= MOST_HOSTS
    except ConfigError as error:
        assert len(str(error)) < 1000


PMI = (
    b"cmd=init pmi_version=1 pmi_subversion=1",
    b"cmd=put kvsname=j key=K value=a b c",
    b"cmd=get kvsname=j key=K",
    b"cmd=barrier_in",
    b"cmd=abort exitcode=3",
    b"mcmd=spawn",
    b"endcmd",
    b"cmd=lookup_name service=a",
)


@fuzzed(st.lists(altered(PMI, most_changes=2), max_size=12))
def test_words_of_a_library_of_mpi(_: Path, lines: list[bytes]) -> None:
    manager = ProcessManager("j", 1, "(vector,(0,1,1))", lambda word: [word])
    for line in lines:
        answer = manager.answer(line.decode("ascii", errors="replace"))
        assert answer is None or answer.startswith("cmd=")
        assert 0 <= (manager.aborted or 0) < 1000


@fuzzed(altered([b'{"K": "a"}', b'["a"]', b'{"missing": [], "words": ["a", "b"]}', b'{"K": 1}']))
def test_words_of_other_ranks_of_mpi(_: Path, text: bytes) -> None:
    word = text.decode("utf-8", "surrogateescape")
    with contextlib.suppress(KnltrainError):
        ProcessManager("j", 1, "", lambda _: [word]).answer("cmd=barrier_in")
    store = InMemoryStore()
    store.put("fence 1 all", word)
    with contextlib.suppress(KnltrainError):
        assert len(Fence(1, 2, store).gather("a", 1, "a meeting")) == 2


EVENTS = (
    b'{"event": "progress", "at_seconds": 1.0, "step": 1, "total": 2, "loss": 0.5}\n',
    b'{"event": "done", "at_seconds": 1.0, "result": {}}\n',
    b'{"event": "error", "at_seconds": 1.0, "kind": "E", "message": "m", "step": 1, '
    b'"exit_code": 2}\n',
)


@fuzzed(st.lists(altered(EVENTS), max_size=4))
def test_events_of_a_worker(_: Path, lines: list[bytes]) -> None:
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    os.write(write_fd, b"".join(lines)[:65536])
    os.close(write_fd)
    reader = EventReader(read_fd)
    for event in reader.read():
        assert isinstance(event["event"], str)
        if event["event"] == "error":
            str(Failure.from_event(0, event))
        elif event["event"] == "done":
            assert isinstance(event["result"], dict)
    reader.close()
