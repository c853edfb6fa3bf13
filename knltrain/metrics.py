"""What one worker writes while it trains: JSON lines and TensorBoard events."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from knltrain.clocks import Clocks
from knltrain.errors import RunFolderError
from knltrain.files.durable import PatientFile, reason_of, write_whole

SECONDS_BETWEEN_RECORDS = 0.2
"""Five records a second at most: one costs less than a millisecond, so the log stays below 1 %."""

_CASTAGNOLI: Final = 0x82F63B78
"""The polynomial of CRC-32C (RFC 3720, appendix B.4), its lowest bit first."""

_MASK: Final = 0xA282EAD8
"""Added to a checksum, so that one of data that hold checksums is no weak one."""


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """One line of the log about training; the rates cover the steps since the line before."""

    step: int
    """Of this worker."""
    epoch: float
    loss: float
    """Mean over the steps since the line before, of this worker's part of each batch."""
    run_loss: float
    """Mean over the images of all workers since the line before, as far as this worker has heard.

    Where several processes start workers it changes when these tell each other, once a second.
    """
    learning_rate: float
    images_per_second: float
    """Images of all workers together."""
    exchange_share: float
    data_share: float
    """Share of the time in which the worker had no batch yet."""
    seconds: float
    """Training time since step 0."""


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """One line of the log about the model on the test set."""

    step: int
    """Of the run."""
    epoch: float
    accuracy: float
    loss: float
    images: int
    seconds: float
    """Training time since step 0; the evaluations themselves are not in it."""


@final
class MetricsLog:
    """Writes `metrics-<rank>.jsonl`, and for rank 0 TensorBoard events, into a run folder.

    A log that goes on after `resumed_step` of its worker, and `resumed_run_step` of the run if that
    is another one, first drops every line beyond these, so that no step stands in the file twice.
    Every line is written at once: what is in the file survives a kill. Nothing here raises for a
    disk that takes no more: `lacking` tells what is missing.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        *,
        steps_per_epoch: int,
        resumed_step: int = 0,
        resumed_run_step: int | None = None,
    ) -> None:
        path = folder / f"metrics-{rank}.jsonl"
        self._steps_per_epoch = steps_per_epoch
        run_step = resumed_step if resumed_run_step is None else resumed_run_step
        self._of_before = _drop_records_beyond(path, {"train": resumed_step, "test": run_step})
        self._lines = PatientFile(path)
        self._events = ScalarEvents(folder, min(resumed_step, run_step)) if rank == 0 else None
        self._losses = 0.0
        self._step = resumed_step
        self._images = 0
        self._train_seconds = 0.0
        self._exchange_seconds = self._data_seconds = 0.0

    def start(self, clocks: Clocks, images: int) -> None:
        """Measure the rates of the next record from here on."""
        self._images = images
        self._train_seconds = clocks.train_seconds
        self._exchange_seconds = clocks.exchange.seconds
        self._data_seconds = clocks.batch.seconds

    def step_done(
        self,
        step: int,
        loss: float,
        learning_rate: float,
        clocks: Clocks,
        *,
        run_loss: Callable[[], float],
        images: int,
        last: bool,
    ) -> None:
        """Count one step; writes a record when the last one is old enough, or on the last step.

        `run_loss` returns the mean loss of all workers since its last call. `images` are those that
        all workers together have taken in the whole run.
        """
        self._losses += loss
        seconds = clocks.train_seconds - self._train_seconds
        if not last and step > 1 and seconds < SECONDS_BETWEEN_RECORDS:
            return
        exchange_seconds = clocks.exchange.seconds - self._exchange_seconds
        data_seconds = clocks.batch.seconds - self._data_seconds
        record = TrainingRecord(
            step=step,
            epoch=step / self._steps_per_epoch,
            loss=self._losses / (step - self._step),
            run_loss=run_loss(),
            learning_rate=learning_rate,
            images_per_second=(images - self._images) / seconds if seconds else 0.0,
            exchange_share=exchange_seconds / seconds if seconds else 0.0,
            data_share=data_seconds / seconds if seconds else 0.0,
            seconds=clocks.train_seconds,
        )
        self._write("train", record)
        self._losses, self._step = 0.0, step
        self.start(clocks, images)

    def evaluated(
        self, step: int, accuracy: float, loss: float, images: int, clocks: Clocks
    ) -> None:
        """Write what an evaluation after `step` found."""
        epoch = step / self._steps_per_epoch
        seconds = clocks.train_seconds
        self._write("test", EvaluationRecord(step, epoch, accuracy, loss, images, seconds))

    def lacking(self) -> dict[str, str]:
        """What each file of the log lacks, by its name; empty for one that has everything."""
        found = {file.path.name: file.lacks for file in self._files()}
        if self._of_before:
            found[self._lines.path.name] = self._of_before
        return found

    def write_out(self) -> None:
        """Try once more to write what could not be written so far."""
        for file in self._files():
            file.write_out()

    def close(self) -> None:
        """Close the files; the log can be closed twice."""
        for file in self._files():
            file.close()

    def _files(self) -> list[PatientFile]:
        return [self._lines] if self._events is None else [self._lines, self._events.file]

    def _write(self, kind: str, record: TrainingRecord | EvaluationRecord) -> None:
        values = asdict(record)
        line = json.dumps({"kind": kind, **values}, allow_nan=False) + "\n"
        self._lines.append(line.encode(), record.step)
        if self._events is not None:
            step = values.pop("step")
            self._events.write(step, {f"{kind}/{name}": value for name, value in values.items()})


@final
class ScalarEvents:
    """Writes scalars as TensorBoard's event files, into `file`.

    By the messages of the package `tensorboard`: other writers import PyTorch, which costs a worker
    seconds at its start. Its own writer has a thread, which a full disk ends with a traceback.
    After a resume TensorBoard is told to forget what lies beyond `resumed_step`.
    """

    def __init__(self, folder: Path, resumed_step: int = 0) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        host, process = socket.gethostname(), os.getpid()
        self.file = PatientFile(
            folder / f"events.out.tfevents.{time.time():010.0f}.{host}.{process}.0"
        )
        self._add(0, file_version="brain.Event:2")
        if resumed_step:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._add(resumed_step + 1, session_log=start)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write the scalars of one step by their tags."""
        values = [
            self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()
        ]
        self._add(step, summary=self._summary(value=values))

    def _add(self, step: int, **content: Any) -> None:
        event = self._event(wall_time=time.time(), step=step, **content)
        self.file.append(tf_record(event.SerializeToString()), step)


def tf_record(content: bytes) -> bytes:
    """Return one record of TFRecord: length, its checksum, content, its checksum (little-endian).

    The package `tensorboard` has this, too, and loads its stand-in for TensorFlow with it: a tenth
    of the time of a worker's start.
    """
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_CASTAGNOLI if byte & 1 else 0)
    return byte


_REMAINDERS: Final = tuple(map(_remainder, range(256)))


def _checksum(content: bytes) -> bytes:
    """Return the masked CRC-32C: turned right by 15 bits, and the mask added."""
    rest = 0xFFFFFFFF
    for byte in content:
        rest = rest >> 8 ^ _REMAINDERS[(rest ^ byte) & 0xFF]
    rest ^= 0xFFFFFFFF
    return struct.pack("<I", ((rest >> 15 | rest << 17) + _MASK) & 0xFFFFFFFF)


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
    except UnicodeDecodeError as error:
        raise RunFolderError(
            f"{path}: damaged: expected JSON records, found no text at byte {error.start}"
        ) from error
    return list(_parsed(path, lines))


def _parsed(path: Path, lines: list[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                return  # cut short
            record = None
        if not isinstance(record, dict):
            raise RunFolderError(
                f"{path}, line {number}: damaged: expected a JSON record, found {line[:60]!r}"
            )
        yield record


def _drop_records_beyond(path: Path, step_of_kind: Mapping[str, int]) -> str:
    """Leave only records up to these steps; return what is wrong with the file, if anything.

    One that is no log any more is put aside as `<name>.damaged`: a log must not end a run.
    """
    try:
        if path.exists():
            _leave_only(path, step_of_kind)
    except OSError as error:
        return f"records of steps that are taken anew cannot be removed ({reason_of(error)})"
    except (RunFolderError, KeyError, TypeError):
        damaged = path.with_name(f"{path.name}.damaged")
        with suppress(OSError):
            path.replace(damaged)
        return f"records before step {step_of_kind['train']} are damaged, see {damaged.name}"
    return ""


def _leave_only(path: Path, step_of_kind: Mapping[str, int]) -> None:
    kept = [each for each in read_metrics(path) if each["step"] <= step_of_kind[each["kind"]]]
    text = "".join(json.dumps(record) + "\n" for record in kept)
    if text != path.read_text(encoding="utf-8"):
        write_whole(path, text)
