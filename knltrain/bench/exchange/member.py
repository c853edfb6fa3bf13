"""The base of a contestant's processes: vectors to exchange, and timed exchanges.

A member is asked, by the protocol of `knltrain.bench.step.protocol`:

    {"do": "token"}                       rank 0: what the others need to find each other
    {"do": "join", "token": ...}          all at once, as all below: find each other
    {"do": "hold", "name": ..., "sizes": [...], "handles": [...]}   allocate vectors of these sizes
    {"do": "run", "name": ..., "operation": ..., "count": n}        {"begin": ..., "end": ...}
    {"do": "drop", "name": ...}           free the memory

An operation handles each of the vectors once, one after the other. Times are seconds of the clock
that all processes of a computer share.
"""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, final

import numpy as np

from knltrain.bench.step.protocol import serve
from knltrain.errors import KnltrainError
from knltrain.vectors import FloatArray

_LEAD_IN = 8
"""Warm-up: one exchange in so many, and one at least, before those that count."""


class WrongResult(KnltrainError):  # noqa: N818
    """An exchange with wrong values: its speed would mean nothing."""


class HeldVectors(ABC):
    """Vectors of some sizes for a member to exchange; all zero, so that they stay so."""

    operations: Mapping[str, Callable[[], object]]
    """What can be done with them, by name."""

    @abstractmethod
    def check(self) -> None:
        """Do each operation once on test values; WrongResult if the result is wrong."""

    def meet(self) -> None:  # noqa: B027
        """Wait for the other members, except in one-sided work."""

    def close(self) -> None:  # noqa: B027
        """Free memory that this object does not own itself."""


class Member(ABC):
    """One process of a contestant."""

    version: str
    """What computes, for people."""

    def token(self) -> str:
        """The token by which the others find this process."""
        return ""

    def join(self, token: str) -> None:  # noqa: B027
        """Find the other members; does nothing where there is no need."""

    @abstractmethod
    def hold(self, sizes: Sequence[int], handles: Sequence[Any]) -> HeldVectors:
        """Allocate vectors of so many float32 elements; `handles` come from the benchmark."""


@final
class Answers:
    """A member's answers to the questions above."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._held: dict[str, HeldVectors] = {}

    def __call__(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one question."""
        if question["do"] == "token":
            return {"token": self._member.token()}
        if question["do"] == "join":
            self._member.join(question["token"])
            return {}
        name = question["name"]
        if question["do"] == "hold":
            self._held[name] = self._member.hold(question["sizes"], question["handles"])
            self._held[name].check()
            return {"operations": list(self._held[name].operations)}
        if question["do"] == "run":
            return _timed(self._held[name], question["operation"], question["count"])
        self._held.pop(name).close()
        return {}


def serve_apart(version: str, answers: Callable[[Any], dict[str, Any]]) -> None:
    """Answer until the end of input; output of libraries goes to standard error."""
    answered_on = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with os.fdopen(answered_on, "w") as stream, redirect_stdout(stream):
        serve({"version": version}, answers)


def _timed(held: HeldVectors, operation: str, count: int) -> dict[str, Any]:
    run = held.operations[operation]
    for _ in range(1 + count // _LEAD_IN):
        run()
    held.meet()
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return {"begin": begin, "end": time.perf_counter()}


def check_values(what: str, vectors: Sequence[FloatArray], expected: float) -> None:
    """Raise WrongResult unless all elements are `expected`, a float32 without rounding."""
    for vector in vectors:
        wrong = np.flatnonzero(vector != expected)
        if wrong.size:
            raise WrongResult(
                f"{what}: {wrong.size} of {vector.size} values are wrong, such as "
                f"{vector[wrong[0]]} instead of {expected}"
            )
