"""The thread in which MPI is initialised and finalised, so that the caller can time out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import final

from knltrain.errors import CollectiveError, ExchangeTimeout

_CHECK_SECONDS = 0.1


@final
class MpiThread:
    """Calls ``initialise``, and later ``finalise``, in the same thread, as MPI requires.

    Both return MPI's error code. ``check`` is called now and then during waiting, and may raise. A
    thread that is stuck in a call does not keep the process from ending.
    """

    def __init__(
        self,
        initialise: Callable[[], int],
        finalise: Callable[[], int],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._calls = (("MPI_Init_thread", initialise), ("MPI_Finalize", finalise))
        self._check = check
        self._changed = threading.Condition()
        self._done = 0
        self._asked = 1
        self._failure: BaseException | None = None
        threading.Thread(target=self._run, name="MPI", daemon=True).start()

    def fail(self, error: BaseException) -> None:
        """Make the callers that wait for this thread raise an error."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def await_initialised(self, limit_seconds: float) -> None:
        """Return when MPI is initialised; raise its error, or ExchangeTimeout past the limit."""
        self._await(1, limit_seconds)

    def finalise(self, limit_seconds: float) -> None:
        """Finalise MPI, together with all ranks; raises as `await_initialised` does."""
        with self._changed:
            self._asked = 2
            self._changed.notify_all()
        self._await(2, limit_seconds)

    def _await(self, number: int, limit_seconds: float) -> None:
        def over() -> bool:
            return self._done >= number or self._failure is not None

        deadline = time.monotonic() + limit_seconds
        with self._changed:
            while not self._changed.wait_for(over, _CHECK_SECONDS):
                self._check()
                if time.monotonic() > deadline:
                    raise ExchangeTimeout(
                        f"{self._calls[number - 1][0]} took more than {limit_seconds:.3g} s: "
                        "expected all ranks to call it, and the network to let them reach each "
                        "other"
                    )
            if self._failure is not None:
                raise self._failure

    def _run(self) -> None:
        for number, (name, call) in enumerate(self._calls, 1):
            with self._changed:
                self._changed.wait_for(lambda number=number: self._asked >= number)  # type: ignore[misc]
            try:
                code = call()
            except BaseException as error:  # noqa: BLE001  # the waiting caller raises it
                self.fail(error)
                return
            if code != 0:
                self.fail(CollectiveError(f"{name} failed with code {code}"))
                return
            with self._changed:
                self._done = number
                self._changed.notify_all()
