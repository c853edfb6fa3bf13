"""Real exchange code on a `Machine`: what it touches of other workers becomes steps there.

Nothing of the protocols is written down again. The kernels of ``atomics`` run as the Python that
they are compiled from, with the instructions that they are made of replaced by steps: a load with
acquire, a store with release, a compare-and-exchange, an addition. Arrays of shared memory become
`SharedArray`: plain accesses to a word that is shared by design are steps too, all others are
checked for races (`HappensBefore`) and need not be steps, as without a race nobody can notice how
they interleave (Adve and Hill, "Weak ordering - a new definition", ISCA 1990).

What is assumed of memory, then: release and acquire, which ``atomics`` asks of every processor, and
which alone order plain accesses here. Accesses to shared words themselves are interleaved as if
each were done at once for all. A processor may do one thing more, let a worker load before its own
last store is seen. No protocol minds: locks are taken, and turns go on, by one instruction that
loads and stores, and who waits for a word that only grows waits a little longer.

A sleeper wakes when something that it has looked at has become otherwise; to wake earlier is to
look and sleep again. Each time it looks for dead peers as well. Time limits are never reached.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from interleaving.happens_before import HappensBefore
from interleaving.machine import Machine
from interleaving.shared_array import SharedArray
from interleaving.steps import Location, Step

from knltrain.exchange.transports import peer_wait

NO_LIMIT = math.inf
_nap_until = peer_wait.nap_until
NOBODY = -1


class Seam:
    """Stands between real code and its shared memory, and is the witness of all accesses."""

    def __init__(self, workers: int) -> None:
        self.machine = Machine(workers)
        self.machine.on_exit = self._release_process
        self.order = HappensBefore(workers)
        self.shared: set[Location] = set()
        self.owner: dict[Location, int] = {}
        self.names: dict[Location, str] = {}
        self.identities = [worker + 1 for worker in range(workers)]
        self.acting = 0
        self.plain_accesses_are_steps = False
        self._seconds = 0.0

    def begin(self) -> None:
        """Forget the execution before."""
        self.order = HappensBefore(len(self.machine.workers))

    def share(self, array: np.ndarray, shift: int) -> SharedArray:
        """Have all accesses to an array told."""
        return SharedArray.over(array, self, shift)

    def share_word(
        self, array: SharedArray, index: int, name: str, owner: int | None = None
    ) -> None:
        """Let a word be read and written at once; only its ``owner`` writes it, if there is one."""
        word = array.word(index)
        self.shared.add(word)
        self.names[word] = name
        if owner is not None:
            self.owner[word] = owner

    def order_state(self) -> object:
        """What is to come of what happened before, see `HappensBefore.state`."""
        workers = self.machine.workers
        return self.order.state([worker.number for worker in workers if worker.alive])

    # --- the witness of SharedArray

    def is_shared_word(self, word: Location) -> bool:
        return word in self.shared

    def read(self, part: SharedArray) -> None:
        worker = self.machine.running
        if worker is None:
            return
        if self.plain_accesses_are_steps:
            self.machine.take(Step(f"reads {part.cells()}", reads=frozenset(part.cells())))
        else:
            self.order.read(worker.number, part.cells(), "reads")
        worker.observed.append(part.raw().tobytes())

    def write(self, part: SharedArray) -> None:
        worker = self.machine.running
        if worker is None:
            return
        if self.plain_accesses_are_steps:
            self.machine.take(Step(f"writes {part.cells()}", writes=frozenset(part.cells())))
            worker.observed.append("has written")
        else:
            self.order.write(worker.number, part.cells(), "writes")

    def load(self, array: SharedArray, index: int, *, acquire: bool) -> int:
        word = array.word(index)
        self._step("reads", word, writes=False)
        if acquire:
            self._acquire(word)
        return self.machine.observe(word, int(array.raw()[index]))

    def store(self, array: SharedArray, index: int, value: int, *, release: bool) -> None:
        word = array.word(index)
        self._step(f"sets to {value}", word, writes=True)
        if release:
            self._release(word)
        else:
            self.order.store(word)
        self._write(array, index, value)
        if self.machine.running is not None:
            self.machine.running.observed.append("has stored")

    # --- the instructions of words

    def load_acquire(self, array: SharedArray, index: int) -> int:
        return self.load(array, index, acquire=True)

    def store_release(self, array: SharedArray, index: int, value: int) -> None:
        self.store(array, index, value, release=True)

    def compare_exchange(self, array: SharedArray, index: int, expected: int, value: int) -> int:
        word = array.word(index)
        self._step(f"exchanges {expected} for {value}", word, writes=True)
        self._acquire(word)
        found = int(array.raw()[index])
        if found == expected:
            self._release(word)
            self._write(array, index, value)
        return self.machine.observe(word, found)

    def fetch_add(self, array: SharedArray, index: int, value: int) -> int:
        word = array.word(index)
        self._step(f"adds {value}", word, writes=True)
        self._acquire(word)
        self._release(word)
        found = int(array.raw()[index])
        self._write(array, index, found + value)
        return self.machine.observe(word, found)

    # --- what a process knows of others, and of time

    def own_identity(self) -> int:
        """Of the worker that runs, or of ``acting`` outside of executions."""
        worker = self.machine.running
        return self.identities[worker.number if worker else self.acting]

    def is_alive(self, identity: int) -> bool:
        if identity not in self.identities:
            return False
        worker = self.identities.index(identity)
        place = ("process", worker)
        self._step("looks for", place, writes=False)
        alive = bool(self.machine.observe(place, int(self.machine.workers[worker].alive)))
        if not alive:
            self._acquire(place)
        return alive

    def seconds(self) -> float:
        """Enough between two naps for a look at who is alive."""
        self._seconds += 1
        return self._seconds

    def nap_until(self, look: Any, check: Any, check_alive: Any, limit_seconds: float) -> bool:
        """The real one, after which only that the wait is over counts."""
        with self.machine.napping():
            return _nap_until(look, check, check_alive, limit_seconds)

    def sleep(self, _seconds: float) -> None:
        self.machine.sleep()

    # --- inside

    def _write(self, array: SharedArray, index: int, value: int) -> None:
        if array.raw()[index] != value:
            array.raw()[index] = value
            self.machine.change(array.word(index))

    def _step(self, what: str, place: Location, *, writes: bool) -> None:
        worker = self.machine.running
        if worker is None:
            return
        owner = self.owner.get(place)
        if owner is not None:
            if writes and owner != worker.number:
                raise AssertionError(f"worker {worker.number} {what} {self._name(place)}")
            if not writes and owner in (worker.number, NOBODY):
                return
        only = frozenset([place])
        name = f"{what} {self._name(place)}"
        self.machine.take(
            Step(name, frozenset() if writes else only, only if writes else frozenset())
        )

    def _name(self, place: Location) -> str:
        return self.names.get(place, f"{place[0]} {place[1]}")

    def _acquire(self, place: Location) -> None:
        worker = self.machine.running
        if worker is not None:
            self.order.acquire(worker.number, place)

    def _release(self, place: Location) -> None:
        worker = self.machine.running
        if worker is not None:
            self.order.release(worker.number, place)

    def _release_process(self, worker: int) -> None:
        self.order.release(worker, ("process", worker))
