from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knltrain.cluster import job_secret as module
from knltrain.cluster.job_secret import JobSecret
from knltrain.cluster.task import Task
from knltrain.errors import ConfigError

TASK = Task("tests", 1, 2, 0, 1, "1", "a job", "127.0.0.1")
GIVEN = "0123456789abcdef" * 4
READS = """
import os, sys
from pathlib import Path
from knltrain.cluster.job_secret import JobSecret
from knltrain.cluster.task import Task
task = Task("tests", 1, 2, 0, 1, "1", "a job", "127.0.0.1")
for _ in range(2):
    print(JobSecret(task, Path("/nowhere")).found().hex())
print("KNLTRAIN_JOB_SECRET" in os.environ, os.readlink("/proc/self/fd/0"))
"""


@pytest.fixture(autouse=True)
def nothing_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TAKEN", {})
    monkeypatch.delenv("KNLTRAIN_JOB_SECRET", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jobs"
    made.mkdir(mode=0o700)
    return made


def path_in(folder: Path) -> Path:
    (found,) = folder.glob("*.secret")
    return found


def test_others_find_what_the_first_task_offers_until_it_is_withdrawn(folder: Path) -> None:
    first, other = JobSecret(TASK, folder), JobSecret(TASK, folder)
    assert other.found() is None
    key = first.offered()
    assert other.found() == key
    assert path_in(folder).stat().st_mode & 0o777 == 0o600
    first.withdraw()
    assert (other.found(), list(folder.iterdir())) == (None, [])


def test_folder_is_made_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        first = JobSecret(TASK, tmp_path / "jobs")
        first.offered()
    finally:
        os.umask(before)
    assert (tmp_path / "jobs").stat().st_mode & 0o777 == 0o700
    assert path_in(tmp_path / "jobs").stat().st_mode & 0o777 == 0o600
    first.withdraw()


def test_keys_of_two_launches_differ_also_where_the_secret_is_the_same(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("KNLTRAIN_JOB_SECRET", GIVEN)
    another = Task("tests", 1, 2, 0, 1, "1", "another job", "127.0.0.1")
    assert JobSecret(TASK, folder).found() != JobSecret(another, folder).found()


def test_secret_of_a_killed_job_is_replaced_and_not_removed_by_its_first_task(folder: Path) -> None:
    killed, first = JobSecret(TASK, folder), JobSecret(TASK, folder)
    old, new = killed.offered(), first.offered()
    assert old != new
    killed.withdraw()
    assert JobSecret(TASK, folder).found() == new


def test_what_was_abandoned_goes_after_a_day(folder: Path) -> None:
    for name, age in (("a.secret", 2), ("b.secret.c.partial", 2), ("d.secret", 0.5), ("e", 2)):
        (folder / name).write_text("")
        then = time.time() - age * 86_400
        os.utime(folder / name, (then, then))
    first = JobSecret(TASK, folder)
    first.offered()
    first.withdraw()
    assert sorted(path.name for path in folder.iterdir()) == ["d.secret", "e"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o644])
def test_file_that_is_open_to_others_is_refused(folder: Path, mode: int) -> None:
    JobSecret(TASK, folder).offered()
    path_in(folder).chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"open to others \(mode {mode:04o}\): .*chmod go= .*SECRET"
    ):
        JobSecret(TASK, folder).found()


def test_folder_that_is_open_to_others_is_refused(folder: Path) -> None:
    folder.chmod(0o770)
    with pytest.raises(ConfigError, match=r"jobs', for the secret of this job, is open to others"):
        JobSecret(TASK, folder).offered()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_belongs_to_another_user_is_refused(
    folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "file":
        JobSecret(TASK, folder).offered()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match=f"belongs to user {os.getuid()}: expected one of user"):
        JobSecret(TASK, folder).found() if what == "file" else JobSecret(TASK, folder).offered()


def test_link_to_a_file_is_refused(folder: Path, tmp_path: Path) -> None:
    JobSecret(TASK, folder).offered()
    path = path_in(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be read: Too many levels of symbolic links"):
        JobSecret(TASK, folder).found()


@pytest.mark.parametrize("text", ["", "abc", GIVEN[:-1], GIVEN + "g0", "x" * 5000])
def test_file_that_is_not_whole_is_as_none(folder: Path, text: str) -> None:
    JobSecret(TASK, folder).offered()
    path_in(folder).write_text(text)
    assert JobSecret(TASK, folder).found() is None


@pytest.mark.parametrize("opened", [True, False])
def test_file_that_a_network_file_system_has_replaced_is_as_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    JobSecret(TASK, folder).offered()

    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as replaced:
        replaced.setattr(os, "fstat" if opened else "open", stale)
        found = JobSecret(TASK, folder).found()
    assert found is None


def test_folder_that_cannot_be_written_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written: .*variable KNLTRAIN_JOB_SECRET"):
        JobSecret(TASK, tmp_path / "file" / "jobs").offered()


def test_home_is_needed_only_where_the_secret_is_to_lie_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    expected = r"no home folder.*set HOME or XDG_CONFIG_HOME.*variable KNLTRAIN_JOB_SECRET"
    with pytest.raises(ConfigError, match=expected):
        JobSecret(TASK)
    monkeypatch.setenv("KNLTRAIN_JOB_SECRET", GIVEN)
    assert JobSecret(TASK).found() is not None


@pytest.mark.parametrize("given", ["", "abc", "z" * 64, GIVEN[:-1]])
def test_variable_that_is_no_secret_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, folder: Path, given: str
) -> None:
    monkeypatch.setenv("KNLTRAIN_JOB_SECRET", given)
    with pytest.raises(ConfigError) as error:
        JobSecret(TASK, folder)
    assert f"has {len(given)} characters: expected 64 hexadecimal digits" in str(error.value)
    assert not given or given not in str(error.value)


def told_by(process_input: str, **variables: str) -> tuple[list[str], str, int]:
    process = subprocess.run(
        [sys.executable, "-c", READS],
        input=process_input,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return process.stdout.split(), process.stderr, process.returncode


def test_variable_is_taken_along_and_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err, status = told_by("", KNLTRAIN_JOB_SECRET=GIVEN)
    assert status == 0, err
    monkeypatch.setenv("KNLTRAIN_JOB_SECRET", GIVEN)
    key = JobSecret(TASK, Path("/nowhere")).found()
    assert key is not None
    assert out[:3] == [key.hex(), key.hex(), "False"]


def test_secret_comes_in_at_standard_input_which_is_empty_from_then_on() -> None:
    by_variable, _, _ = told_by("", KNLTRAIN_JOB_SECRET=GIVEN)
    out, err, status = told_by(f"{GIVEN}\nmore", KNLTRAIN_TASK_SECRET="stdin")
    assert status == 0, err
    assert out == [*by_variable[:3], "/dev/null"]


def test_standard_input_without_a_secret_is_told() -> None:
    _, err, status = told_by("", KNLTRAIN_TASK_SECRET="stdin")
    assert status != 0
    assert "no secret has come in at standard input: expected that of knltrain launch" in err
