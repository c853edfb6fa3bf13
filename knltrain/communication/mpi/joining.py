"""How a process becomes a rank of an MPI job that no launcher of MPI has started.

All ranks first find each other by a key-value store, with a deadline. Then each initialises MPI.
The process manager that the library needs then runs in the same process (`ProcessManager`).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import Any, final

from knltrain.cluster.mpi_job import MpiJob, launched_mpi_job, telling_mpi
from knltrain.communication.control_message import MessageError, checked, decoded
from knltrain.communication.mpi.library import MpiLibrary, mpi_library, prepare
from knltrain.communication.mpi.mpi_thread import MpiThread
from knltrain.communication.mpi.process_manager import ProcessManager
from knltrain.communication.mpi.process_mapping import process_mapping, this_node
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.communication.mpi.serving import Serving
from knltrain.communication.mpi.shared_files import SharedFiles
from knltrain.communication.rendezvous.fence import REPORT_SECONDS, Fence
from knltrain.communication.rendezvous.interface_variables import MPI, problem
from knltrain.communication.rendezvous.key_value_store import KeyValueStore
from knltrain.errors import CollectiveError, ConfigError, KnltrainError

_CARD = {"node": (str,), "launched": (bool,), "library": (str,), "job": (str,)}


def join_mpi(
    rank: int,
    ranks: int,
    store: KeyValueStore,
    timeout_seconds: float,
    own_address: str | None = None,
    check: Callable[[], None] = lambda: None,
) -> Any:
    """Become rank ``rank`` of ``ranks`` in MPI.COMM_WORLD; return the module `mpi4py.MPI`.

    To be called by all ranks, with the same store, once in the life of a process. If a launcher of
    MPI has started every one of them as the same rank of as many, its job is used. ``own_address``
    is the address of this computer from which the others are reached. ``check`` is called during
    waiting, and may raise.

    Raises ConfigError if MPI cannot be used so, or if the network interface that a rank's user
    names cannot; ExchangeTimeout, with the ranks that are missing after ``timeout_seconds``; and
    what the store raises.
    """
    if not 0 <= rank < ranks:
        raise ConfigError(f"rank {rank} of {ranks}: expected one of 0 to {ranks - 1}")
    if _MEMBERSHIP:
        raise ConfigError("this process has joined an MPI job before: it can do so only once")
    library = _usable_library(rank, ranks)
    membership = _Membership(library, Fence(rank, ranks, store, check), timeout_seconds)
    _MEMBERSHIP.append(membership)
    return membership.join(own_address)


def leave_mpi(timeout_seconds: float) -> bool:
    """Finalise MPI together with all other ranks; tell whether it was finalised in time.

    To be called by all ranks that have joined, at a normal end of the run; after a failure a
    process just ends. MPI is not finalised, and the process can still end, if another rank is
    missing, or if this one has left before or could not join. Rank 0, whose process may have the
    store, returns last.
    """
    return _MEMBERSHIP[0].leave(timeout_seconds) if _MEMBERSHIP else True


def joined_mpi() -> Any:
    """`mpi4py.MPI` where this process has become a rank by `join_mpi`; else None."""
    return load_mpi(initialize=False) if _MEMBERSHIP else None


@final
class _Membership:
    def __init__(self, library: MpiLibrary, fence: Fence, timeout_seconds: float) -> None:
        self._library, self._fence = library, fence
        self._deadline = time.monotonic() + timeout_seconds
        self._thread: MpiThread | None = None
        self._in_peace = False

    def join(self, own_address: str | None) -> Any:
        """Find the others, initialise MPI, and check that the job has the right ranks."""
        cards = self._meet()
        files = SharedFiles()
        prepare(own_address)
        try:
            if all(card["launched"] for card in cards):
                self._initialise()
            else:
                serving = Serving(self._manager(cards), self._fail)
                with telling_mpi(self._fence.rank, self._fence.ranks, serving.fd):
                    self._initialise()
                serving.prepare_for_exit()
            self._fence.gather("", self._left(), "the end of MPI's initialisation")
        except BaseException:
            files.remove_abandoned()
            raise
        finally:
            files.remove_mapped()
        module = load_mpi(initialize=False)
        world = module.COMM_WORLD
        if (world.rank, world.size) != (self._fence.rank, self._fence.ranks):
            raise ConfigError(
                f"{self._library.version} has made this process rank {world.rank} of {world.size}: "
                f"expected rank {self._fence.rank} of {self._fence.ranks}"
            )
        self._in_peace = True
        return module

    def leave(self, limit_seconds: float) -> bool:
        """Finalise, once, if all others do so too."""
        if not self._in_peace or self._thread is None:
            return False
        self._in_peace = False
        self._deadline = time.monotonic() + limit_seconds
        try:
            self._fence.gather("", self._left(), "the end of MPI")
            self._thread.finalise(self._left())
            return self._fence.leave(self._left())
        except KnltrainError:
            return False

    def _meet(self) -> list[Any]:
        """Exchange what all ranks have to know of each other (a card of each); check it."""
        card = {
            "node": this_node(),
            "launched": _is_it(launched_mpi_job(), self._fence.rank, self._fence.ranks),
            "library": self._library.version,
            "interface": problem(MPI, between_hosts=True),
            "job": f"knltrain-{secrets.token_hex(8)}",
        }
        words = self._fence.gather(json.dumps(card), self._left(), "the start of MPI")
        cards = [_card(rank, word) for rank, word in enumerate(words)]
        for rank, other in enumerate(cards):
            if other["library"] != cards[0]["library"]:
                raise ConfigError(
                    f"rank 0 has {cards[0]['library']}, rank {rank} has {other['library']}: "
                    "expected the same MPI library on all computers"
                )
            if other.get("interface") and len({card["node"] for card in cards}) > 1:
                raise ConfigError(f"rank {rank}: {other['interface']}")
        return cards

    def _manager(self, cards: list[Any]) -> ProcessManager:
        mapping = process_mapping([card["node"] for card in cards])
        return ProcessManager(cards[0]["job"], self._fence.ranks, mapping, self._barrier)

    def _initialise(self) -> None:
        library = self._library
        self._thread = MpiThread(library.initialise, library.finalise, self._fence.check)
        # If a rank is missing, this one's manager times out a little later, and names it.
        self._thread.await_initialised(self._left() + 2 * REPORT_SECONDS)

    def _barrier(self, word: str) -> list[str]:
        return self._fence.gather(word, self._left(), "a barrier within MPI")

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _fail(self, error: BaseException) -> None:
        if self._thread is not None:
            self._thread.fail(error)


_MEMBERSHIP: list[_Membership] = []
"""Empty, or the one membership of this process: MPI cannot be initialised a second time."""


def _card(rank: int, word: str) -> dict[str, Any]:
    """Return the card of a rank; CollectiveError if it is none of this version."""
    try:
        return checked(decoded(word.encode("utf-8", "replace")), _CARD)
    except MessageError as error:
        raise CollectiveError(
            f"rank {rank} brings no card: {error}; start all ranks from one installation"
        ) from None


def _usable_library(rank: int, ranks: int) -> MpiLibrary:
    library = mpi_library()
    if library.initialised():
        raise ConfigError(
            "MPI is initialised in this process already, so that it cannot join a job any more: "
            "import mpi4py.MPI after this, or with mpi4py.rc.initialize = False"
        )
    if not library.speaks_pmi and not _is_it(launched_mpi_job(), rank, ranks):
        raise ConfigError(
            f"{library.version} works only in processes that its own launcher has started, each as "
            f"one of {ranks} ranks: start them by its mpiexec, or install a library of the MPICH "
            "family, as by pip install impi-rt"
        )
    return library


def _is_it(job: MpiJob | None, rank: int, ranks: int) -> bool:
    return job is not None and (job.rank, job.ranks) == (rank, ranks)
