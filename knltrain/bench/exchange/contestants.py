"""The contestants: memory traffic of each operation, and how the processes are started."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from affinity import thread_environment
from knltrain.bench.exchange.all_reduce import ALL_REDUCE
from knltrain.bench.mpiexec import mpiexec
from knltrain.bench.step.peer_process import PeerError, PeerProcess
from knltrain.communication import oneccl
from knltrain.errors import ConfigError, unknown_name

_HERE = "knltrain.bench.exchange"
Groups = Sequence[Sequence[int]]
"""The cpus of each worker."""

_REGISTERED_BY = dict.fromkeys(("knlshm", "ccl"), "knltrain.torch_distributed")
_ROAMING = ("gloo",)

SEGMENT, BOX, COPY = "segment", "box", "copy"


@dataclass(frozen=True, slots=True)
class Contestant:
    """An operation of a crew, done by each of P workers at the same time.

    - `accesses` (P) is how often each element must be read or written in memory until all have done
      it.
    - `moved` (P) is how many vectors it carries; its bandwidth counts these.
    - Operations that are not `exchanges` are parts of one, or have a table of their own; they are
      not compared with libraries.
    - The first `members` take part; None means all.
    """

    name: str
    crew: str
    operation: str
    accesses: Callable[[int], int]
    moved: Callable[[int], int] = lambda _: 1
    exchanges: bool = True
    members: int | None = None


OURS = (
    Contestant("sync_easgd", SEGMENT, "sync_easgd", lambda workers: 2 * workers + 2),
    Contestant("average", SEGMENT, "average", lambda workers: 2 * workers + 1),
    Contestant("visit", SEGMENT, "visit", lambda workers: 4 * workers, lambda workers: workers),
)

ONE_VISIT, TREE, IN_TURN = "one visit", "sync_easgd1", "original_easgd"

MASTERS = (
    Contestant(TREE, SEGMENT, TREE, lambda workers: 7 * workers, exchanges=False),
    Contestant(IN_TURN, SEGMENT, IN_TURN, lambda workers: 4 * workers, exchanges=False),
    Contestant(ONE_VISIT, SEGMENT, ONE_VISIT, lambda _: 4, exchanges=False),
)
"""A tree against visits one after another, and a visit by one worker, from which both follow."""


def soft_memory(workers: int) -> list[Contestant]:
    """Reads and writes in equal parts, and accumulates, by 2, 4, ... and all workers."""
    counts = sorted({workers, *(2**n for n in range(1, workers.bit_length()) if 2**n < workers)})
    return [
        Contestant(f"{name} by {count}", BOX, operation, *costs, exchanges=False, members=count)
        for count in counts
        for name, operation, costs in (
            ("read, write", "read_write", (lambda p: 4 * p, lambda p: 2 * p)),
            ("accumulate", "accumulate", (lambda p: 3 * p, lambda p: p)),
        )
    ]


def all_reduce_by(peer: str) -> Contestant:
    """A library's all-reduce: at best each worker's vector is read once and written once."""
    return Contestant(peer, peer, ALL_REDUCE, lambda workers: 2 * workers)


def started(crew: str, groups: Groups, fds: Sequence[int] = ()) -> list[PeerProcess]:
    """Start the processes of a crew; PeerError with the remedy for a library that is missing."""
    if crew in PEERS:
        return PEERS[crew](crew, groups)
    return [
        _process(
            crew,
            f"{crew}_member",
            cpus,
            {SEGMENT: [str(rank)], BOX: [], COPY: [str(len(cpus))]}[crew],
            fds=fds,
        )
        for rank, cpus in enumerate(groups)
    ]


def known_peers(names: Sequence[str]) -> list[str]:
    """Return the names, each once; ConfigError for one that is none of PEERS."""
    for name in names:
        if name not in PEERS:
            raise ConfigError(unknown_name("peer", name, PEERS))
    return list(dict.fromkeys(names))


def _torch(backend: str) -> Callable[[str, Groups], list[PeerProcess]]:
    def start(name: str, groups: Groups) -> list[PeerProcess]:
        return torch_ranks(name, f"{_HERE}.torch_member", backend, groups)

    return start


def torch_ranks(
    name: str, program: str, backend: str, groups: Groups, arguments: Sequence[str] = ()
) -> list[PeerProcess]:
    """Start `python -m program RANK WORKERS BACKEND *arguments [MODULE]` for each rank.

    MODULE registers a backend that PyTorch does not have. A backend that roams has threads beside
    the worker's own: if a worker has one core, its ranks share all cores.
    """
    shared = [cpu for group in groups for cpu in group]
    module = [_REGISTERED_BY[backend]] if backend in _REGISTERED_BY else []
    return [
        PeerProcess(
            name,
            ["-m", program, str(rank), str(len(groups)), backend, *arguments, *module],
            *((shared, 1) if backend in _ROAMING and len(cpus) == 1 else (cpus,)),
            # Gloo looks up the host's own name, which may lead to any network, or nowhere.
            environment={"GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank, cpus in enumerate(groups)
    ]


def _oneccl(settings: Mapping[str, str]) -> Callable[[str, Groups], list[PeerProcess]]:
    def start(name: str, groups: Groups) -> list[PeerProcess]:
        _check_oneccl()
        return [
            _process(name, "oneccl_member", cpus, [str(rank), str(len(groups))], settings)
            for rank, cpus in enumerate(groups)
        ]

    return start


def _check_oneccl() -> None:
    if oneccl.installed() is None:
        raise PeerError(oneccl.MISSING)


def _ccl(name: str, groups: Groups) -> list[PeerProcess]:
    _check_oneccl()
    return _torch("ccl")(name, groups)


def _mpi(name: str, groups: Groups) -> list[PeerProcess]:
    member = [sys.executable, "-m", "mpi4py", "-m", f"{_HERE}.mpi_member", json.dumps(groups)]
    cpus = [cpu for group in groups for cpu in group]
    arguments = ["-n", str(len(groups)), *member]
    # Each rank pins itself.
    environment = {**thread_environment(len(groups[0])), "I_MPI_PIN": "0"}
    return [PeerProcess(name, arguments, cpus, python=mpiexec(), environment=environment)]


PEERS: dict[str, Callable[[str, Groups], list[PeerProcess]]] = {
    "knlshm": _torch("knlshm"),
    "gloo": _torch("gloo"),
    "oneccl": _oneccl({}),
    "oneccl-shm": _oneccl({"CCL_ATL_SHM": "1"}),
    "ccl": _ccl,
    "mpi": _mpi,
}
"""Libraries by name: `oneccl` over TCP, as it is without MPI's launcher, and `oneccl-shm` through
shared memory, which it can be told to take within a node; `ccl` is our backend of torch.distributed
on `oneccl`."""


def _process(
    name: str,
    module: str,
    cpus: Sequence[int],
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    fds: Sequence[int] = (),
) -> PeerProcess:
    return PeerProcess(
        name,
        ["-m", f"{_HERE}.{module}", *arguments],
        cpus,
        environment=environment,
        pass_fds=fds,
    )
