"""All interleavings of some programs, each state once, depth first.

Every execution runs the real programs from the start: first the choices of the path that is being
explored, then any. States that were met before are not followed again (``Machine`` says what a
state is). Of steps that do not conflict one order is enough: sleep sets, Godefroid, "Partial-order
methods for the verification of concurrent systems", LNCS 1032, 1996, figure 5.2; they leave out
steps but no state. With ``preemptions`` only schedules are explored in which at most so many times
a worker is held up that could go on, Musuvathi and Qadeer, "Iterative context bounding for
systematic testing of multithreaded programs", PLDI 2007; those without sleep sets.
"""

from __future__ import annotations

import hashlib
import marshal
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from interleaving.machine import Machine, one_core
from interleaving.steps import Choice, Step, Worker

Asleep = dict[Choice, Step]


class Broken(AssertionError):  # noqa: N818
    """An interleaving in which the programs do not do what they promise."""


class Scenario(ABC):
    """Programs on a machine, and what must be true of every interleaving of them."""

    machine: Machine

    @abstractmethod
    def begin(self) -> list[Callable[[], None]]:
        """Set all shared memory to what it is at the start; return the programs."""

    @abstractmethod
    def state(self) -> object:
        """Shared memory, and whatever else the future depends on, of types that marshal knows."""

    @abstractmethod
    def check_end(self, workers: list[Worker]) -> None:
        """Raise AssertionError unless all that was promised came true."""


@dataclass
class _Node:
    """A state on the path that is being explored: its steps, and those that need not be taken."""

    steps: Asleep
    untried: list[Choice]
    asleep: Asleep
    last: int | None
    preemptions: int | None
    taken: Choice | None = None

    def advance(self) -> None:
        """Take the next choice; those taken before sleep from here on."""
        if self.taken is not None:
            self.asleep[self.taken] = self.steps[self.taken]
        self.taken = self.untried.pop()

    def asleep_below(self) -> Asleep:
        assert self.taken is not None
        if self.preemptions is not None:
            return {}
        done, taken = self.steps[self.taken], self.taken
        return {
            choice: step
            for choice, step in self.asleep.items()
            # A death may rule out another one.
            if choice[0] != taken[0]
            and not step.conflicts_with(done)
            and not choice[1] == taken[1] == "dies"
        }

    def preemptions_below(self) -> int | None:
        if self.preemptions is None or self.taken is None:
            return None
        held_up = self.taken[0] != self.last and (self.last, "goes") in self.steps
        return self.preemptions - (held_up and self.taken[1] == "goes")


@dataclass
class Exploration:
    """Explores a scenario in which up to ``deaths`` workers die anywhere.

    `run` returns when there is nothing left, or raises Broken with the steps that lead there.
    """

    scenario: Scenario
    deaths: int = 0
    preemptions: int | None = None
    states: int = 0
    executions: int = 0
    ends: int = 0
    _path: list[_Node] = field(default_factory=list)
    _met: dict[bytes, frozenset[Choice]] = field(default_factory=dict)
    _depth: int = 0
    _trace: list[str] = field(default_factory=list)
    _broken: AssertionError | None = None

    def run(self) -> Exploration:
        """Explore everything."""
        with one_core():
            return self._explore()

    def _explore(self) -> Exploration:
        while True:
            self._depth, self._trace = 0, []
            self.executions += 1
            self.scenario.machine.run(self.scenario.begin(), self._choose)
            if self._broken is not None:
                steps = "\n  ".join(self._trace)
                raise Broken(
                    f"{self._broken}, in execution {self.executions}, after the steps\n  {steps}"
                ) from self._broken
            while self._path and not self._path[-1].untried:
                self._path.pop()
            if not self._path:
                return self
            self._path[-1].advance()

    def _choose(self) -> Choice | None:
        try:
            if self._depth == len(self._path) and not self._extend():
                return None
        except AssertionError as error:
            self._broken = error
            return None
        choice = self._path[self._depth].taken
        assert choice is not None
        self._depth += 1
        self._note(choice)
        return choice

    def _extend(self) -> bool:
        """Add the state that has been reached to the path, if anything is to be done in it."""
        workers = self.scenario.machine.workers
        for worker in workers:
            if isinstance(worker.error, AssertionError):
                raise worker.error
        steps = self._steps(workers)
        if not any(how == "goes" for _, how in steps):
            self._check_end(workers)
        above = self._path[-1] if self._path else None
        last = above.taken[0] if above and above.taken and above.taken[1] == "goes" else None
        preemptions = above.preemptions_below() if above else self.preemptions
        asleep = above.asleep_below() if above else {}
        key = self._key(last, preemptions)
        untried = self._untried(key, steps, asleep)
        if preemptions == 0 and (last, "goes") in steps:
            untried = [choice for choice in untried if choice[0] == last or choice[1] == "dies"]
        if not untried:
            return False
        # The last one is tried first: who has just gone on goes on, deaths come at the end.
        untried.sort(key=lambda choice: (choice[1] == "goes", choice[0] == last, -choice[0]))
        met_asleep = {choice: asleep[choice] for choice in self._met[key]}
        self._path.append(_Node(steps, untried, met_asleep, last, preemptions))
        self._path[-1].advance()
        return True

    def _untried(self, key: bytes, steps: Asleep, asleep: Asleep) -> list[Choice]:
        """What is to be tried in a state: all, or what slept whenever it was met before."""
        met = self._met.get(key)
        if met is None:
            self.states += 1
            self._met[key] = frozenset(asleep)
            return [choice for choice in steps if choice not in asleep]
        self._met[key] = met & asleep.keys()
        return [choice for choice in met if choice not in asleep]

    def _key(self, last: int | None, preemptions: int | None) -> bytes:
        remembered = tuple(worker.remembers() for worker in self.scenario.machine.workers)
        bounded = None if preemptions is None else (last, preemptions)
        state = marshal.dumps((self.scenario.state(), remembered, bounded), 2)
        return hashlib.blake2b(state, digest_size=16).digest()

    def _steps(self, workers: list[Worker]) -> Asleep:
        machine, found = self.scenario.machine, Asleep()
        may_die = sum(worker.died for worker in workers) < self.deaths
        for worker in workers:
            if worker.step is None or not worker.alive:
                continue
            if machine.can_go(worker):
                found[worker.number, "goes"] = worker.step
            if may_die:
                own = frozenset([("process", worker.number)])
                found[worker.number, "dies"] = Step("dies", writes=own)
        return found

    def _check_end(self, workers: list[Worker]) -> None:
        waiting = [worker.number for worker in workers if worker.alive]
        if waiting:
            raise AssertionError(f"workers {waiting} wait for ever")
        self.ends += 1
        self.scenario.check_end(workers)

    def _note(self, choice: Choice) -> None:
        worker = self.scenario.machine.workers[choice[0]]
        step = worker.step.name if worker.step and choice[1] == "goes" else choice[1]
        self._trace.append(f"worker {choice[0]}: {step}")
