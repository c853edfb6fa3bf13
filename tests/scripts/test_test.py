"""Which interpreter passes which tests, in a copy of the scripts that sets nothing up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAYS_ITS_ARGUMENTS = '#!/bin/sh\necho "$0" "$@"\n'


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/test", tmp_path / "scripts/test")
    _write(tmp_path / "scripts/setup")
    for venv in (".venv", ".venv-ipex", "other"):
        _write(tmp_path / venv / "bin/python")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        (["-k", "one"], {}, ".venv/bin/python -m pytest --numprocesses 3 -k one"),
        (["--ipex", "-x"], {}, ".venv-ipex/bin/python -m pytest -m ipex or oldest_torch -x"),
        (["--ipex"], {"IPEX_VENV": "other"}, "other/bin/python -m pytest -m ipex or oldest_torch"),
        (["--zoo", "-x"], {}, ".venv/bin/python -m pytest --numprocesses 2 -m zoo -x"),
    ],
)
def test_tests_run_in_the_environment_that_was_set_up_for_them(
    scripts: Path, arguments: list[str], variables: dict[str, str], expected: str
) -> None:
    done = subprocess.run(
        ["scripts/test", *arguments],
        cwd=scripts,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    option = arguments[0] if arguments[0] in ("--ipex", "--zoo") else "--dev"
    said = done.stdout.replace(f"{scripts}/", "").splitlines()
    assert said == [f"scripts/setup {option}", expected]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "{}/.venv-zoo"),
        ({"ZOO_VENV": "other"}, "{}/other"),
        ({"ZOO_VENV": "/opt/zoo", "PYTHONPATH": "/mine"}, "/opt/zoo:/mine"),
    ],
)
def test_the_zoos_folder_is_found_by_python(
    scripts: Path, variables: dict[str, str], expected: str
) -> None:
    _write(scripts / ".venv/bin/python", '#!/bin/sh\necho "$PYTHONPATH"\n')
    done = subprocess.run(
        ["scripts/test", "--zoo"],
        cwd=scripts,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == expected.format(scripts)


FAILS_EVERY_SECOND_TIME = """#!/bin/sh
echo "$@"
if rm before 2>/dev/null; then exit 1; else touch before; fi
"""


def again(scripts: Path, *arguments: str, python: str) -> subprocess.CompletedProcess[str]:
    _write(scripts / ".venv/bin/python", python)
    return subprocess.run(
        ["scripts/test", "--again", *arguments],
        cwd=scripts,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def test_tests_run_again_and_again_and_failures_are_counted(scripts: Path) -> None:
    done = again(scripts, "3", "tests", "-k", "one", python=FAILS_EVERY_SECOND_TIME)
    lines = done.stdout.splitlines()
    assert lines[1:-1:2] == [
        f"test: round {number} of 3; failed so far: {failed}"
        for number, failed in ((1, 0), (2, 0), (3, 1))
    ]
    assert lines[2:-1:2] == ["-m pytest tests -k one"] * 3
    assert (lines[-1], done.returncode) == ("test: 1 of 3 rounds failed", 1)
    assert again(scripts, "2", "tests", python="#!/bin/sh\n").returncode == 0


def test_a_mistake_in_what_is_to_run_again_ends_it(scripts: Path) -> None:
    done = again(scripts, "3", "nowhere", python="#!/bin/sh\nexit 4\n")
    assert (done.stdout.count("round"), done.returncode) == (1, 4)
    done = again(scripts, "many", "tests", python="#!/bin/sh\n")
    assert "--again 'many': expected a number of rounds, then tests" in done.stderr
    assert done.returncode == 2


def _write(program: Path, text: str = SAYS_ITS_ARGUMENTS) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
