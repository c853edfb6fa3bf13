"""Communication among the processes that start workers of the same run."""

from __future__ import annotations

import math
import os
import queue
import select
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, final

from affinity import allowed_cpus
from knltrain import __version__
from knltrain.cluster.task import Task
from knltrain.cluster.worker import MeetingPoint
from knltrain.communication.rendezvous.heartbeat import Figures
from knltrain.communication.rendezvous.rendezvous import Rendezvous
from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer, fd_behind
from knltrain.config import RunConfig
from knltrain.data.contents import DataContents
from knltrain.errors import (
    ExchangeTimeout,
    KnltrainError,
    PeerLost,
    RunFolderError,
    RunStopped,
    SegmentError,
)
from knltrain.launch.node_share import NodeShare, agreed_node_shares, card_of, met_node_share
from knltrain.launch.run_folder import CONFIG

LEAST_PATIENCE_SECONDS = 60.0
"""How long tasks may be apart at the start, where exchange.timeout_seconds is shorter."""

SEEN_SECONDS = 30.0
"""How long another computer's network file system may take to show what was written."""

_PAUSE_SECONDS = 0.02


@final
class JobPeers:
    """This process among all that start workers of a run, once all are there.

    - `node_share` is its part of the run.
    - ``lost_fd`` becomes readable when another process is gone; `lost` then tells which and why.
    - `limit_seconds` is how long another process may take.
    - ``notes_fd`` becomes readable when a note has come: notes go from the others to the first
      process, which `leads`, and from it to all `others`.

    Unless they `are_apart`, the tasks of a computer may have the same cpus.

    Raises ConfigError where the processes do not agree on the run, and the errors of `Rendezvous`.
    Leaving the ``with`` block with an error tells the others of it.
    """

    def __init__(
        self,
        task: Task,
        node_share: NodeShare,
        config: RunConfig,
        data: DataContents | None = None,
        *,
        are_apart: bool = True,
    ) -> None:
        self.lost: PeerLost | None = None
        self.lost_fd, self._telling_fd = os.pipe()
        self.notes_fd, self._noting_fd = os.pipe()
        os.set_blocking(self.notes_fd, False)
        self._notes: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.others, self.leads = task.tasks - 1, task.rank == 0
        limit_seconds = max(LEAST_PATIENCE_SECONDS, config.exchange.timeout_seconds)
        self.limit_seconds = limit_seconds
        described = _described(config)
        cpus = allowed_cpus() if are_apart else ()
        card = card_of(task, socket.gethostname(), cpus, __version__, described, data)
        self._listener: socket.socket | None = None
        self._rendezvous: Rendezvous | None = None
        try:
            self._rendezvous = Rendezvous(
                task,
                card,
                limit_seconds,
                self._take_lost,
                partial(agreed_node_shares, node_share),
                self._take_note,
            )
            self.node_share = met_node_share(node_share, self._rendezvous.agreed[task.rank])
        except BaseException:
            self._leave(in_peace=False)
            raise

    def settle(self, run_folder: Path | None) -> tuple[Path, MeetingPoint]:
        """Agree on the run folder and on the address of the workers' rendezvous.

        The first process sends both, and gives ``run_folder``; the others receive them. Raises
        RunFolderError where the folder is not visible.
        """
        word = None
        if run_folder is not None:
            config = (run_folder / CONFIG).read_text(encoding="utf-8")
            word = {"run_folder": str(run_folder.absolute()), "config": config}
        meeting_point, told = self.meeting_point(word)
        if word is None:
            _check_seen(Path(told["run_folder"]), told["config"])
        return Path(told["run_folder"]), meeting_point

    def meeting_point(self, word: dict[str, str] | None) -> tuple[MeetingPoint, dict[str, str]]:
        """The address of the workers' rendezvous, and the first process's `word` (collective)."""
        rendezvous = self._found()
        if self.leads:
            self._listener = rendezvous.listener()
            port, told = self._listener.getsockname()[1], word or {}
            rendezvous.share([port, told])
        else:
            port, told = rendezvous.share()
        fd = None if self._listener is None else self._listener.fileno()
        return MeetingPoint(rendezvous.first_address, port, rendezvous.address, fd), told

    def door(self) -> socket.socket:
        """A listener of this process for others of the run, at the address that they know."""
        rendezvous = self._found()
        return (
            rendezvous.listener() if self.leads else socket.create_server((rendezvous.address, 0))
        )

    def addresses(self, door: socket.socket | None) -> tuple[tuple[str, int], ...]:
        """The address (host, port) of each node's `door`, which one of its tasks has (collective).

        Raises what `settle` raises, and ExchangeTimeout.
        """
        rendezvous, own = self._found(), self.node_share.node
        told = [] if door is None else [[own, rendezvous.address, door.getsockname()[1]]]
        if self.leads:
            words = told + self._awaited(self.node_share.nodes - len(told))
            rendezvous.share(sorted(words))
            return tuple((host, port) for _, host, port in sorted(words))
        for word in told:
            rendezvous.note({"door": word})
        (_, _, port), *others = rendezvous.share()
        return ((rendezvous.first_address, port), *((host, port) for _, host, port in others))

    def key_for(self, purpose: str) -> bytes:
        """A key that all processes of the run know, and nobody else."""
        return self._found().key_for(purpose)

    def _awaited(self, count: int) -> list[list[Any]]:
        """The doors of so many others."""
        deadline, found = time.monotonic() + self._patience_seconds, list[list[Any]]()
        while len(found) < count:
            if self.lost is not None:
                raise self.lost
            if time.monotonic() > deadline:
                raise ExchangeTimeout(
                    f"{len(found)} of {count} other nodes have told in {self.limit_seconds:g} s "
                    "where their data are"
                )
            select.select([self.notes_fd], [], [], _PAUSE_SECONDS)
            found += [note["door"] for note in self.notes()]
        return found

    def doorkeepers(self, fds: tuple[int, ...], what: str = "memory") -> list[DescriptorServer]:
        """Serve the descriptors of a node's memory to its other shares, while servers are open."""
        return [
            DescriptorServer(fd, self._address_of(what, number)) for number, fd in enumerate(fds)
        ]

    def memory_fds(self, count: int, what: str = "memory") -> tuple[int, ...]:
        """Fetch the descriptors that the `doorkeepers` of this node's first share serve.

        Raises SegmentError on timeout, and PeerLost if another process has failed meanwhile.
        """
        deadline = time.monotonic() + self._patience_seconds
        found: list[int] = []
        try:
            while len(found) < count:
                try:
                    found.append(fd_behind(self._address_of(what, len(found))))
                except SegmentError:
                    if self.lost is not None:
                        raise self.lost from None
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_PAUSE_SECONDS)
        except BaseException:
            for fd in found:
                os.close(fd)
            raise
        return tuple(found)

    def tell(self, note: dict[str, Any]) -> None:
        """Send a note to all others, or to the first one."""
        self._found().note(note)

    def notes(self) -> list[dict[str, Any]]:
        """The notes that have come since the last call."""
        with suppress(BlockingIOError):
            os.read(self.notes_fd, 4096)
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._notes.get_nowait())
        return found

    def show_life(self, limit_seconds: float, figures: Figures | None = None) -> None:
        """Begin to send heartbeats to the others, or change their limit and what they carry.

        A process that has begun, and then sends none for ``limit_seconds``, counts as lost. All are
        awaited without a limit from now on.
        """
        self._found().show_life(limit_seconds, figures)

    def give_up(self, why: str) -> None:
        """Tell the others at once that this part of the run fails, since its end may take long."""
        if self._rendezvous is not None:
            self._rendezvous.leave(in_peace=False, why=why)

    def __enter__(self) -> JobPeers:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        why = None
        if error is not None:
            why = str(error) if isinstance(error, KnltrainError) else type(error).__name__
        self._leave(in_peace=error is None or isinstance(error, RunStopped), why=why)

    @property
    def _patience_seconds(self) -> float:
        return math.inf if self._found().shows_life else self.limit_seconds

    def _found(self) -> Rendezvous:
        assert self._rendezvous is not None
        return self._rendezvous

    def _address_of(self, what: str, number: int) -> str:
        return f"knltrain-{what}-{self._found().token}-{self.node_share.node}-{number}"

    def _take_lost(self, error: PeerLost) -> None:
        self.lost = error
        with suppress(OSError):
            os.write(self._telling_fd, b".")

    def _take_note(self, note: dict[str, Any]) -> None:
        self._notes.put(note)
        with suppress(OSError):
            os.write(self._noting_fd, b".")

    def _leave(self, in_peace: bool, why: str | None = None) -> None:
        if self._rendezvous is not None:
            self._rendezvous.leave(in_peace, why)
        if self._listener is not None:
            self._listener.close()
        for fd in (self.lost_fd, self._telling_fd, self.notes_fd, self._noting_fd):
            os.close(fd)


def _described(config: RunConfig) -> dict[str, Any]:
    """The configuration, with digests of the files that say what is trained: they must be equal.

    The path of a network's description may differ, as all workers read that of the run folder.
    """
    described = config.model_dump(mode="json")
    network = described["network"]
    for key in ("name", "weights"):
        file = Path(network[key] or "")
        if file.suffix and file.is_file():
            from xxhash import xxh3_128

            network[f"{key} (digest)"] = xxh3_128(file.read_bytes()).hexdigest()
    if network["name"].endswith(".json"):
        network["name"] = Path(network["name"]).name
    return described


def _check_seen(run_folder: Path, config: str) -> None:
    deadline = time.monotonic() + SEEN_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            if (run_folder / CONFIG).read_text(encoding="utf-8") == config:
                return
        time.sleep(_PAUSE_SECONDS)
    raise RunFolderError(
        f"the run folder '{run_folder}', which task 0 has made, is not seen on "
        f"{socket.gethostname()}: expected one in a file system that all computers of the run "
        "share, as by --set runs_folder=/home/me/runs"
    )
