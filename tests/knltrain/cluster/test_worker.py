"""A worker's identity through the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.cluster.worker import MeetingPoint, WorkerIdentity, worker_identity
from knltrain.errors import RunFolderError


@pytest.mark.parametrize("segment_fds", [(5,), (5, 8), ()])
@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("point", [None, MeetingPoint("n1", 7, "10.0.0.2", 5)])
def test_an_identity_survives_the_environment(
    segment_fds: tuple[int, ...], resume: bool, point: MeetingPoint | None
) -> None:
    board = None if resume else (9, 1)
    drawn = None if resume else (11, 12)
    own = segment_fds, 16, resume, point, board
    identity = WorkerIdentity(1, 4, Path("runs/a = b"), 7, *own, initial=drawn)
    assert worker_identity(identity.to_environment()) == identity


def test_the_environment_of_this_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = WorkerIdentity(0, 1, Path("runs/run"), 3, (), 1, False)
    for name, value in identity.to_environment().items():
        monkeypatch.setenv(name, value)
    assert worker_identity() == identity


@pytest.mark.parametrize("missing", ["KNLTRAIN_RANK", "KNLTRAIN_SEGMENT_FDS", "KNLTRAIN_RESUME"])
def test_a_missing_variable_is_named(missing: str) -> None:
    environment = WorkerIdentity(0, 1, Path("run"), 3, (), 1, False).to_environment()
    del environment[missing]
    with pytest.raises(RunFolderError, match=f"{missing} is not set"):
        worker_identity(environment)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RANK", "first"),
        ("RANK", "²"),
        ("THREADS", "-1"),
        ("SEGMENT_FDS", "3,x"),
        ("MEETING_POINT", "[" * 20_000),
        ("MEETING_POINT", "{}"),
        ("MEETING_POINT", "[1]"),
        ("MEETING_POINT", ""),
        ("REQUESTS", "x"),
        ("REQUESTS", "[" * 20_000),
        ("REQUESTS", "[1]"),
        ("REQUESTS", "[1, -1]"),
        ("REQUESTS", '["1", 2.5]'),
        ("REQUESTS", "{}"),
        ("REQUESTS", "7"),
        ("INITIAL", "[1]"),
    ],
    ids=lambda text: text[:12],
)
def test_what_no_launcher_writes_is_named(name: str, text: str) -> None:
    written = WorkerIdentity(0, 2, Path("r"), 3, (4,), 1, resume=False).to_environment()
    with pytest.raises(RunFolderError, match=rf"KNLTRAIN_{name} is '.*started by `knltrain train`"):
        worker_identity({**written, f"KNLTRAIN_{name}": text})
