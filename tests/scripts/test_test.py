"""Which interpreter passes which tests, in a copy of the scripts that sets nothing up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAYS_ITS_ARGUMENTS = '#!/bin/sh\necho "$0" "$@"\n'


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        (["-k", "one"], {}, ".venv/bin/python -m pytest --numprocesses 2 -k one"),
        (["--ipex", "-x"], {}, ".venv-ipex/bin/python -m pytest -m ipex or oldest_torch -x"),
        (["--ipex"], {"IPEX_VENV": "other"}, "other/bin/python -m pytest -m ipex or oldest_torch"),
    ],
)
def test_tests_run_in_the_environment_that_was_set_up_for_them(
    tmp_path: Path, arguments: list[str], variables: dict[str, str], expected: str
) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/test", tmp_path / "scripts/test")
    _write(tmp_path / "scripts/setup")
    for venv in (".venv", ".venv-ipex", "other"):
        _write(tmp_path / venv / "bin/python")
    done = subprocess.run(
        ["scripts/test", *arguments],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    option = "--ipex" if "--ipex" in arguments else "--dev"
    said = done.stdout.replace(f"{tmp_path}/", "").splitlines()
    assert said == [f"scripts/setup {option}", expected]


def _write(program: Path) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(SAYS_ITS_ARGUMENTS, encoding="utf-8")
    program.chmod(0o755)
