"""Processes that are asked at once, of which the others may wait for ever for one that ends."""

from __future__ import annotations

import selectors
from collections.abc import Sequence
from typing import Any

from knltrain.bench.peer_process import PeerError, PeerProcess


def answers_of(
    processes: Sequence[PeerProcess], question: Any, longest_seconds: float
) -> list[dict[str, Any]]:
    """Ask all, and return their answers in the order of the processes.

    Raises PeerError as soon as one ends instead, and where none comes for `longest_seconds`.
    """
    for process in processes:
        process.ask(question)
    answers: dict[PeerProcess, dict[str, Any]] = {}
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process, selectors.EVENT_READ, process)
        while len(answers) < len(processes):
            ready = selector.select(longest_seconds)
            if not ready:
                silent = ", ".join(each.name for each in processes if each not in answers)
                raise PeerError(f"no answer to {question!r} for {longest_seconds:g} s: {silent}")
            for key, _ in ready:
                answers[key.data] = key.data.answer()
                selector.unregister(key.fileobj)
    return [answers[process] for process in processes]
