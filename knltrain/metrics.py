"""What one worker counts while it trains: clocks, JSON lines and TensorBoard events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, final

from knltrain.errors import RunFolderError

SECONDS_BETWEEN_RECORDS = 0.2
"""Five records a second at most: one costs less than a millisecond, so the log stays below 1 %."""


@final
class Clock:
    """Sums the seconds spent inside its `with` blocks, which must not nest."""

    __slots__ = ("_entered", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._entered = 0.0

    def __enter__(self) -> None:
        self._entered = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._entered


@final
@dataclass(slots=True)
class Clocks:
    """Where the time of one worker goes; `exchange` includes waiting for the other workers.

    `training` covers everything from the first step's begin to the last one's end but evaluations
    and checkpoints: compute, exchange, and all that happens between two steps.
    """

    training: Clock = field(default_factory=Clock)
    compute: Clock = field(default_factory=Clock)
    exchange: Clock = field(default_factory=Clock)
    evaluation: Clock = field(default_factory=Clock)
    checkpoint: Clock = field(default_factory=Clock)
    _counted_until: float = field(default=0.0, init=False)

    def set_out(self) -> None:
        """Let the training time run from here."""
        self._counted_until = time.perf_counter() - self._besides_training

    def step_done(self) -> None:
        """Count the time since the last step's end, or since `set_out`, as training."""
        now = time.perf_counter() - self._besides_training
        self.training.seconds += now - self._counted_until
        self._counted_until = now

    @property
    def _besides_training(self) -> float:
        return self.evaluation.seconds + self.checkpoint.seconds

    @property
    def train_seconds(self) -> float:
        """Time spent on training until the end of the last step."""
        return self.training.seconds

    @property
    def exchange_share(self) -> float:
        """Share of the training time spent in exchanges, 0 to 1."""
        return self.exchange.seconds / self.train_seconds if self.train_seconds else 0.0

    def seconds(self) -> dict[str, float]:
        """Seconds of every clock by its name, as a checkpoint keeps them."""
        return {each.name: getattr(self, each.name).seconds for each in fields(self) if each.init}

    def go_on_from(self, seconds: Mapping[str, float]) -> None:
        """Let the clocks continue where those of a stopped run stood."""
        for name, value in seconds.items():
            getattr(self, name).seconds = value


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """One line of the log about training; the rates cover the steps since the line before."""

    step: int
    epoch: float
    loss: float
    """Mean over the steps since the line before, of this worker's part of each batch."""
    learning_rate: float
    images_per_second: float
    """Images of all workers together."""
    exchange_share: float
    seconds: float
    """Training time since step 0."""


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """One line of the log about the model on the test set."""

    step: int
    epoch: float
    accuracy: float
    loss: float
    images: int
    seconds: float
    """Training time since step 0; the evaluations themselves are not in it."""


@final
class MetricsLog:
    """Writes `metrics-<rank>.jsonl`, and for rank 0 TensorBoard events, into a run folder.

    A log that goes on after `resumed_step` first drops every line beyond it, so that no step
    stands in the file twice. Every line is flushed: what is in the file survives a kill.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        *,
        images_per_step: int,
        steps_per_epoch: int,
        resumed_step: int = 0,
    ) -> None:
        self._path = folder / f"metrics-{rank}.jsonl"
        self._images_per_step = images_per_step
        self._steps_per_epoch = steps_per_epoch
        _drop_records_beyond(self._path, resumed_step)
        self._lines = self._path.open("a", encoding="utf-8")
        self._events = ScalarEvents(folder, resumed_step) if rank == 0 else None
        self._losses = 0.0
        self._step = resumed_step
        self._train_seconds = 0.0
        self._exchange_seconds = 0.0

    def start(self, clocks: Clocks) -> None:
        """Measure the rates of the first record from here on."""
        self._train_seconds = clocks.train_seconds
        self._exchange_seconds = clocks.exchange.seconds

    def step_done(
        self, step: int, loss: float, learning_rate: float, clocks: Clocks, *, last: bool
    ) -> None:
        """Count one step; writes a record when the last one is old enough, or on the last step."""
        self._losses += loss
        seconds = clocks.train_seconds - self._train_seconds
        if not last and step > 1 and seconds < SECONDS_BETWEEN_RECORDS:
            return
        steps = step - self._step
        exchange_seconds = clocks.exchange.seconds - self._exchange_seconds
        record = TrainingRecord(
            step=step,
            epoch=step / self._steps_per_epoch,
            loss=self._losses / steps,
            learning_rate=learning_rate,
            images_per_second=steps * self._images_per_step / seconds if seconds else 0.0,
            exchange_share=exchange_seconds / seconds if seconds else 0.0,
            seconds=clocks.train_seconds,
        )
        self._write("train", record)
        self._losses, self._step = 0.0, step
        self.start(clocks)

    def evaluated(
        self, step: int, accuracy: float, loss: float, images: int, clocks: Clocks
    ) -> None:
        """Write what an evaluation after `step` found."""
        epoch = step / self._steps_per_epoch
        seconds = clocks.train_seconds
        self._write("test", EvaluationRecord(step, epoch, accuracy, loss, images, seconds))

    def close(self) -> None:
        """Close the files; the log can be closed twice."""
        self._lines.close()
        if self._events is not None:
            self._events.close()
            self._events = None

    def _write(self, kind: str, record: TrainingRecord | EvaluationRecord) -> None:
        values = asdict(record)
        self._lines.write(json.dumps({"kind": kind, **values}, allow_nan=False) + "\n")
        self._lines.flush()
        if self._events is not None:
            step = values.pop("step")
            self._events.write(step, {f"{kind}/{name}": value for name, value in values.items()})


@final
class ScalarEvents:
    """Writes scalars as TensorBoard's event files, flushed every few seconds.

    By the package `tensorboard` itself: other writers import PyTorch, which costs a worker seconds
    at its start. After a resume TensorBoard is told to forget what lies beyond `resumed_step`.
    """

    def __init__(self, folder: Path, resumed_step: int = 0) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._writer = EventFileWriter(str(folder), flush_secs=10)
        if resumed_step:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._add(resumed_step + 1, session_log=start)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write the scalars of one step by their tags."""
        values = [
            self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()
        ]
        self._add(step, summary=self._summary(value=values))

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, **content))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Records of a metrics file, in the order written; a last line cut short is left out.

    Raises `RunFolderError` when the file is missing or a line before the last is not a record.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RunFolderError(
            f"{path}: cannot read the metrics ({error.strerror}): is it the folder of a run?"
        ) from error
    return list(_parsed(path, lines))


def _parsed(path: Path, lines: list[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise RunFolderError(
                    f"{path}, line {number}: expected a JSON record, found {line[:60]!r}"
                ) from error


def _drop_records_beyond(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = [record for record in read_metrics(path) if record["step"] <= step]
    rewritten = path.with_suffix(".partial")
    rewritten.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    rewritten.replace(path)
