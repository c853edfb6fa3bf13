"""The processes of one contestant, which exchange with each other on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, final

from knltrain.bench.answers import NoAnswer, answers_as_they_come
from knltrain.bench.step.peer_process import PeerError, PeerProcess

ANSWER_SECONDS = 300.0
"""A contestant that is silent for so long hangs: libraries do when a process of theirs is lost."""


@final
class Crew:
    """Processes that answer questions together, and are suspended between them.

    Several libraries wait in a loop that takes a whole core, so they must not run while another is
    measured. A process that is not ready, ends or hangs raises PeerError, with its last output.
    """

    def __init__(self, name: str, processes: Sequence[PeerProcess]) -> None:
        self.name = name
        self._processes = processes

    @property
    def version(self) -> str:
        """The version of the computing library, as the first process reports it."""
        return str(self._processes[0].ready["version"])

    def assemble(self) -> None:
        """Return when all are ready and have found each other."""
        for process in self._processes:
            process.wait_ready()
        first = self._processes[0]
        first.ask({"do": "token"})
        self._all({"do": "join", "token": first.answer()["token"]})
        self._suspend()

    def answers(self, question: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Ask all at once, and return their answers, in any order."""
        with self._awake():
            return self._all(question)

    def hold(self, name: str, sizes: Sequence[int], handles: Sequence[Any] = ()) -> None:
        """Let all allocate vectors of so many elements under a name, and check every operation."""
        self.answers({"do": "hold", "name": name, "sizes": sizes, "handles": handles})

    def drop(self, name: str) -> None:
        """Let all free the vectors of a name."""
        self.answers({"do": "drop", "name": name})

    def seconds(self, name: str, operation: str, count: int, members: int | None = None) -> float:
        """Return the time of one operation of `count` in a row, by the first `members`."""
        question = {"do": "run", "name": name, "operation": operation, "count": count}
        with self._awake(members):
            answers = self._all(question, members)
        begin = min(answer["begin"] for answer in answers)
        return float(max(answer["end"] for answer in answers) - begin) / count

    @contextmanager
    def _awake(self, members: int | None = None) -> Iterator[None]:
        for process in self._processes[:members]:
            process.resume()
        yield
        self._suspend()

    def _suspend(self) -> None:
        for process in self._processes:
            process.suspend()

    def _all(self, question: Mapping[str, Any], members: int | None = None) -> list[dict[str, Any]]:
        """Ask, and return the answers in the order in which they come."""
        asked = self._processes[:members]
        try:
            return [answer for _, answer in answers_as_they_come(asked, question, ANSWER_SECONDS)]
        except NoAnswer as error:
            raise PeerError(
                f"contestant '{self.name}' has not answered for {ANSWER_SECONDS:g} s when it was "
                f"asked to {question['do']}: leave it out"
            ) from error


def assembled(stack: ExitStack, name: str, processes: Sequence[PeerProcess]) -> Crew:
    """Return a crew that is ready; `stack` ends its processes."""
    for process in processes:
        stack.enter_context(process)
    crew = Crew(name, processes)
    crew.assemble()
    return crew
