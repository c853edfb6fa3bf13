"""The progress display of a run: one moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, TypeAlias, final

from knltrain.clocks import SHOWN_DATA_SHARE
from knltrain.launch.events import Event

if TYPE_CHECKING:
    from rich.console import Console

Follow: TypeAlias = Callable[[Event], object]
"""What a program does with each event of a run that it has started."""

PLAIN_LINES: Final = 10
"""How many progress lines a whole run prints where no line can be redrawn."""


class ProgressDisplay(ABC):
    """Shows progress and evaluations of one run, between entering and leaving a `with` block."""

    @abstractmethod
    def progress(self, event: Event) -> None:
        """Show a `progress` event: step, total, loss, images_per_second, data_share."""

    @abstractmethod
    def compiling(self, event: Event) -> None:
        """Show a `compiling` event: how many kernels are done, of which total, seconds_left."""

    @abstractmethod
    def evaluation(self, event: Event) -> None:
        """Show an `evaluation` event: step, accuracy, loss."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Show one line that stays."""

    @abstractmethod
    def __enter__(self) -> ProgressDisplay: ...

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@final
class TerminalDisplay(ProgressDisplay):
    """A bar that is redrawn in place, with notes above it."""

    def __init__(self, console: Console) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}{task.fields[accuracy]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._progress.add_task("starting", total=None, figures="", accuracy="")

    def progress(self, event: Event) -> None:
        """Move the bar and redraw the figures beside it."""
        self._progress.update(
            self._task,
            description="training",
            completed=event["step"],
            total=event["total"],
            figures=_figures(event),
        )

    def compiling(self, event: Event) -> None:
        """Move the bar."""
        done, total = event["done"], event["total"]
        self._progress.update(
            self._task, description="compiling kernels", completed=done, total=total
        )

    def evaluation(self, event: Event) -> None:
        """Keep the accuracy beside the bar until the next one."""
        self._progress.update(self._task, accuracy=f"  accuracy {event['accuracy']:.2%}")

    def note(self, text: str) -> None:
        """Print above the bar."""
        self._progress.console.print(text, highlight=False, markup=False)

    def __enter__(self) -> TerminalDisplay:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()


@final
class PlainDisplay(ProgressDisplay):
    """Lines for a log file: every tenth of the run and every evaluation."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._tenth: int | None = None
        self._compiled_tenth: int | None = None

    def progress(self, event: Event) -> None:
        """Print when another tenth of the steps is done, and for the first step told of."""
        tenth = event["step"] * PLAIN_LINES // event["total"]
        if tenth == self._tenth:
            return
        self._tenth = tenth
        self.note(f"step {event['step']}/{event['total']}  {_figures(event)}")

    def compiling(self, event: Event) -> None:
        """Print when another tenth of the kernels is compiled, and for the first one."""
        tenth = event["done"] * PLAIN_LINES // event["total"]
        if tenth == self._compiled_tenth:
            return
        self._compiled_tenth = tenth
        left = f"{event['total'] - event['done']} to go, about {event['seconds_left']:.0f} s"
        self.note(f"compiling kernels {event['done']}/{event['total']}  {left}")

    def evaluation(self, event: Event) -> None:
        """Print accuracy and loss on the test images."""
        self.note(
            f"step {event['step']}  test accuracy {event['accuracy']:.2%}"
            f"  test loss {event['loss']:.4f}"
        )

    def note(self, text: str) -> None:
        """Print one line."""
        print(text, file=self._stream, flush=True)

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing is open: every line is already out."""


@final
class FollowedDisplay(ProgressDisplay):
    """Passes each event to the program that has started the run.

    A note is an event {"event": "note", "text": ...}.
    """

    def __init__(self, follow: Follow) -> None:
        self._follow = follow

    def progress(self, event: Event) -> None:
        """Pass it on."""
        self._follow(event)

    def compiling(self, event: Event) -> None:
        """Pass it on."""
        self._follow({"event": "compiling", **event})

    def evaluation(self, event: Event) -> None:
        """Pass it on."""
        self._follow(event)

    def note(self, text: str) -> None:
        """Pass it on as an event."""
        self._follow({"event": "note", "text": text})

    def __enter__(self) -> FollowedDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing is open."""


def display_on(
    stream: IO[str], hears_progress: bool = True, follow: Follow | None = None
) -> ProgressDisplay:
    """The display that fits `stream`: a redrawn bar on a terminal, lines for anything else.

    It prints lines, too, where another process shows the progress. Where a program follows the run,
    all events go to it, and nothing is printed.
    """
    if follow is not None:
        return FollowedDisplay(follow)
    if hears_progress and stream.isatty():
        from rich.console import Console  # nothing that files and logs need

        console = Console(file=stream)
        if not console.is_dumb_terminal:
            return TerminalDisplay(console)
    return PlainDisplay(stream)


def _figures(event: Event) -> str:
    """The loss, the rate, and the share of time without a batch if that is worth a word."""
    told = f"loss {event['loss']:.4f}  {event['images_per_second']:,.0f} images/s"
    share = event["data_share"]
    return f"{told}  waiting for data {share:.0%}" if share >= SHOWN_DATA_SHARE else told
