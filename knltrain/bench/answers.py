"""Asks several processes at once, and fails if one ends: the others may wait for it for ever."""

from __future__ import annotations

import selectors
from collections.abc import Iterator, Sequence
from typing import Any

from knltrain.bench.step.peer_process import PeerError, PeerProcess


class NoAnswer(PeerError):  # noqa: N818
    """No awaited process has answered for too long."""


def answers_of(
    processes: Sequence[PeerProcess], question: Any, longest_seconds: float
) -> list[dict[str, Any]]:
    """Ask all processes, and return their answers in the order of the processes.

    Raises PeerError as soon as one ends instead, and if no answer comes for `longest_seconds`.
    """
    answers = dict(answers_as_they_come(processes, question, longest_seconds))
    return [answers[process] for process in processes]


def answers_as_they_come(
    processes: Sequence[PeerProcess], question: Any, longest_seconds: float
) -> Iterator[tuple[PeerProcess, dict[str, Any]]]:
    """Ask all processes, and yield each with its answer when that comes; raises as `answers_of`."""
    for process in processes:
        process.ask(question)
    awaited = list(processes)
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process, selectors.EVENT_READ, process)
        while awaited:
            ready = selector.select(longest_seconds)
            if not ready:
                silent = ", ".join(each.name for each in awaited)
                raise NoAnswer(f"no answer to {question!r} for {longest_seconds:g} s: {silent}")
            for key, _ in ready:
                yield key.data, key.data.answer()
                selector.unregister(key.fileobj)
                awaited.remove(key.data)
