from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import affinity
from affinity.cli.parser import main

_ROOT = str(Path(affinity.__file__).parents[1])


def _main(*words: str) -> int:
    return main(words)


def _typed(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "affinity", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("plan", "--workers", "9"), "9 workers asked for"),
        (("plan",), "how many workers?"),
        (("plan", "--workers", "2", "--policy", "strict", "--need", "w=5G"), "strict"),
        (("plan", "--workers", "2", "--cpus", "99"), "no cpus are left by --cpus 99"),
    ],
)
def test_what_cannot_be_had_is_one_line_and_status_2(
    words: tuple[str, ...], reason: str, xeon_max_files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(*words, "--machine", xeon_max_files) == 2
    told, error = capsys.readouterr()
    assert told == ""
    assert error.startswith("error: ")
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("plan", "--workrs", "2"), "error: unrecognized arguments: --workrs 2; see python -m aff"),
        (("shwo",), "error: 'shwo' is none of the commands show, plan, check, run, snapshot; did "
         "you mean show?; see python -m affinity --help"),
        (("show", "extra"), "error: unrecognized arguments: extra; see python -m affinity show"),
        (("plan", "--", "true"), "error: nothing is run here, but behind -- stands 'true'; see"),
        (("show", "--json", "--picture", "a.svg"), "not allowed with argument --json"),
        (("show", "--machine", ""), "argument --machine: '' is not the name of a file"),
        (("snapshot", ""), "'' is not the name of a file"),
        (("check", "--pid", "-5"), "'-5' is not a whole number, 0 or more"),
        (("",), "error: '' is none of the commands show, plan"),
        (("--json", "show"), "error: '--json' is none of the commands show, plan"),
        (("plan", "--workers", "cores"), "did you mean core?; see python -m affinity plan --help"),
    ],
)  # fmt: skip
def test_mistyped_words_point_to_help(
    words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        _main(*words)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "  plan       which cores and which memory each worker would get, and why"),
        (("plan", "--help"), "  numactl --membind=2, srun --mem-bind=map_mem   --policy strict"),
        (("snapshot", "--help"), "usage: python -m affinity snapshot FILE.tgz"),
    ],
)
def test_help_shows_where_to_begin(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        _main(*words)
    assert caught.value.code == 0
    assert line in capsys.readouterr().out.splitlines()


_HEAVY = (
    *("numpy", "matplotlib", "numba", "torch"),
    *("difflib", "json", "lzma", "shutil", "subprocess", "tarfile", "tempfile", "xml"),
    *("affinity.placement.place", "affinity.cli.options.request", "affinity.cli.run"),
)
"""What takes long to import, and is of no use to who wants to see a machine."""


@pytest.mark.parametrize(
    ("words", "heavy"), [(("show",), _HEAVY), (("plan", "--workers", "1"), _HEAVY[:4])]
)
def test_nobody_waits_for_modules_that_are_of_no_use(
    words: tuple[str, ...], heavy: tuple[str, ...]
) -> None:
    script = (
        "import sys\nfrom affinity.cli.parser import main\n"
        f"main({words!r})\nprint([name for name in {heavy!r} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", script], env={**os.environ, "PYTHONPATH": _ROOT},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert result.stdout.splitlines()[-1] == "[]"


def test_package_runs_as_a_module(xeon_max_files: str) -> None:
    shown = _typed("show", "--machine", xeon_max_files)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Intel(R) Xeon(R) CPU Max 9480\n")


def test_terminal_without_unicode_gets_plain_letters(xeon_max_files: str) -> None:
    shown = _typed("show", "--machine", xeon_max_files, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "`- node 0  4 cores" in shown.stdout


def test_reader_that_leaves_early_is_no_error(xeon_max_files: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        shown = subprocess.run(
            [sys.executable, "-m", "affinity", "show", "--machine", xeon_max_files],
            stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (shown.returncode, shown.stderr) == (141, "")
