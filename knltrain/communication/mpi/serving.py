"""A thread that answers this process's MPI library in the place of a launcher."""

from __future__ import annotations

import atexit
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import final

from knltrain.communication.mpi.process_manager import FAREWELL, ProcessManager
from knltrain.errors import FAILURE

_LEFT_WAITING: list[socket.socket] = []
"""Connections that stay open: if a library finds its own closed, it ends the process."""


@final
class Serving:
    """Answers requests of the MPI library at the other end of ``fd``, until the process ends.

    ``fd`` is for the library, which closes it. If an answer fails, ``on_failure`` is called with
    the error. The library then gets no answer and blocks; a refusal would make it end the process.
    If the library aborts it asks its launcher to end the process, so this thread does.
    """

    def __init__(
        self, manager: ProcessManager, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._manager, self._on_failure = manager, on_failure
        self._connection, other = socket.socketpair()
        self.fd = other.detach()
        threading.Thread(target=self._serve, name="process manager", daemon=True).start()

    def prepare_for_exit(self) -> None:
        """At exit, write MPICH's last answer in advance: no thread runs when it is unloaded.

        To be called once MPI is initialised; before, the library would take it for another answer.
        """
        atexit.register(self._say_farewell)

    def _serve(self) -> None:
        try:
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    self._answer(line.decode("ascii", errors="replace").rstrip("\r\n"))
            self._connection.close()
        except BaseException as error:  # noqa: BLE001  # the caller that waits for MPI raises it
            _LEFT_WAITING.append(self._connection)
            self._on_failure(error)

    def _answer(self, line: str) -> None:
        answer = self._manager.answer(line)
        if self._manager.aborted is not None:
            os._exit(self._manager.aborted % 256 or FAILURE)
        if answer is not None:
            self._connection.sendall(answer.encode("ascii", errors="replace") + b"\n")

    def _say_farewell(self) -> None:
        with suppress(OSError):  # it has been asked and answered before
            self._connection.sendall(FAREWELL.encode("ascii") + b"\n")
