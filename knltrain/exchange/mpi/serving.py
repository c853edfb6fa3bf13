"""A thread that answers this process's MPI library in the place of a launcher."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import final

from knltrain.exchange.mpi.process_manager import ProcessManager


@final
class Serving:
    """Answers what comes in at the other end of ``fd``, until the library has finished.

    ``fd`` is for the library, which closes it. ``on_failure`` is called with what made an answer
    impossible; the library then gets none, and waits for ever, where an answer that refuses would
    have it end the process.
    """

    def __init__(
        self, manager: ProcessManager, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._manager, self._on_failure = manager, on_failure
        self._connection, other = socket.socketpair()
        self.fd = other.detach()
        self._thread = threading.Thread(target=self._serve, name="process manager", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        received = b""
        while not self._manager.finished:
            try:
                received += self._connection.recv(4096)
                while b"\n" in received:
                    line, _, received = received.partition(b"\n")
                    self._answer(line.decode("ascii", errors="replace").strip("\r"))
            except BaseException as error:  # noqa: BLE001  # whoever waits for MPI raises it
                self._on_failure(error)
                return
        self._connection.close()

    def _answer(self, line: str) -> None:
        answer = self._manager.answer(line)
        if answer is not None:
            self._connection.sendall(answer.encode("ascii") + b"\n")
