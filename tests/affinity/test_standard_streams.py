"""Programs that are started with closed streams, or with streams that lack letters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
FIRST = "from affinity.standard_streams import secure_standard_streams as secure; secure(); "
NULL = os.stat(os.devnull).st_rdev  # noqa: PTH116 (a device)


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """What a shell has done, with this Python as $python."""
    variables = {**os.environ, "PYTHONPATH": ROOT, "python": sys.executable, **environment}
    return subprocess.run(
        ["sh", "-c", line], env=variables, capture_output=True, timeout=60, check=False
    )


CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"]


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_streams_lead_nowhere_and_no_file_gets_their_numbers(
    closed: str, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    look = "import os, sys; own = os.open('.', os.O_RDONLY); print(own > 2)"
    null = f"print(all(os.fstat(fd).st_rdev == {NULL} for fd in (0, 1, 2) if fd in closed))"
    numbers = {"<": 0, ">": 1, "2": 2}
    program = f"closed = {[numbers[word[0]] for word in closed.split()]}; {look}; {null}"
    written = f"import sys; sys.stdout = open({str(told)!r}, 'w')"
    ended = shell(f'"$python" -X dev -W error -c "{FIRST}{written}; {program}" {closed}')
    assert ended.returncode == 0, ended.stderr
    assert told.read_text().split() == ["True", "True"]


def test_programs_that_are_started_find_open_streams() -> None:
    child = "import os, subprocess, sys; subprocess.run(['cat'], check=True)"
    ended = shell(f'"$python" -c "{FIRST}{child}; print(1)" <&-')
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"1\n", b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_letter_that_a_stream_lacks_is_escaped(stream: str, encoding: str) -> None:
    program = f"import sys; print('\\u03b1 \\xe9', file=sys.{stream})"
    ended = shell(f'"$python" -c "{FIRST}{program}" 2>&1', PYTHONIOENCODING=encoding)
    assert (ended.returncode, ended.stdout) == (0, "α é\n".encode(encoding, "backslashreplace"))


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words", ["-m affinity plan --workers 1", "-m affinity.exec --cpus 0 -- true"]
)
def test_affinity_does_its_work_with_closed_streams(words: str, closed: str) -> None:
    ended = shell(f'"$python" {words} {closed}', OMP_NUM_THREADS="1")
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_affinity_fails_with_its_own_status_where_nobody_can_be_told(closed: str) -> None:
    assert shell(f'"$python" -m affinity plan --workers 9999 {closed}').returncode == 2
    assert shell(f'"$python" -m affinity.exec --cpus 9999 -- true {closed}').returncode == 2
