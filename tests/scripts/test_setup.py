"""Setting up in a copy of the scripts, with interpreters that only pretend."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP_THAT_WORKS = '#!/bin/sh\\necho "pip: $*" >> pip.log\\n'
PIP_THAT_SHOWS_ITS_PINS = (
    '#!/bin/sh\\nwhile [ "$#" -gt 1 ]; do [ "$1" = --constraint ] && cat "$2" >> pins.log; shift; '
    'done\\necho "$1" >> pip.log\\n'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose `.venv` was left half-made: it has Python, but no pip."""
    (tmp_path / "scripts").mkdir()
    for name in ("pyproject.toml", "scripts/setup", "scripts/constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    _write(tmp_path / ".venv/bin/python", "#!/bin/sh\nexit 1\n")
    return tmp_path


def _write(program: Path, text: str) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)


def _setup(
    project: Path, venv: str, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run scripts/setup with an interpreter that runs `venv` when it is to make one."""
    made = f'#!/bin/sh\ncase "$*" in *"-m venv"*) {venv};; esac\nexec {sys.executable} "$@"\n'
    _write(project / "python", made)
    environment = {"PYTHON": str(project / "python"), "PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(
        ["scripts/setup", *options],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_half_made_environment_is_made_anew_and_installed_into(project: Path) -> None:
    done = _setup(project, f"printf '{PIP_THAT_WORKS}' > .venv/bin/python; exit 0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install" in (project / "pip.log").read_text(encoding="utf-8")
    assert "compileall" in (project / "pip.log").read_text(encoding="utf-8")
    assert len(list((project / ".venv").glob("knltrain-*"))) == 1


@pytest.mark.parametrize("venv", ["exit 1", "exit 0"], ids=["venv fails", "venv makes no pip"])
def test_environment_that_cannot_be_made_is_told_with_the_way_out(project: Path, venv: str) -> None:
    done = _setup(project, venv)
    assert done.returncode == 2
    assert "install python3-venv, or name another interpreter with PYTHON=" in done.stderr
    assert not list((project / ".venv").glob("knltrain-*"))


@pytest.mark.parametrize(
    ("offered", "variables", "pin", "said"),
    [
        ("2.15.0, 2.13.0+cpu, 2.13.0", {}, "torch==2.13.0+cpu", "1.3 GB, with torch's CPU build"),
        ("2.13.0+cpu", {}, "torch==2.13.0+cpu", "1.3 GB, with torch's CPU build"),
        ("2.13.0, 2.12.0+cpu", {}, "torch==2.13.0", "1.3 GB"),
        ("2.13.0, 2.13.0+cpu.cxx11", {}, "torch==2.13.0", "1.3 GB"),
        ("", {}, "torch==2.13.0", "1.3 GB"),
        ("2.13.0+cpu", {"TORCH": "2.13.0+cu126"}, "torch===2.13.0+cu126", "asks for 2.13.0+cu126"),
    ],
)
def test_cpu_build_of_torch_is_taken_where_an_index_offers_it(
    project: Path, offered: str, variables: dict[str, str], pin: str, said: str
) -> None:
    listing = (
        'case "$*" in *"index versions"*) printf "torch (9)\\nAvailable versions: %%s\\n" '
        f'"{offered}"; exit 0;; esac\n'
    )
    pip = PIP_THAT_SHOWS_ITS_PINS.replace("\\n", f"\\n{listing}", 1)
    (project / "pip").write_text(pip.replace("\\n", "\n").replace("%%", "%"), encoding="utf-8")
    done = _setup(
        project, "cp pip .venv/bin/python; chmod +x .venv/bin/python; exit 0", **variables
    )
    assert (done.returncode, done.stderr) == (0, "")
    pinned = (project / "pins.log").read_text(encoding="utf-8").splitlines()
    assert [line for line in pinned if line.startswith("torch=")] == [pin]
    assert len(pinned) > 20
    (told,) = [line for line in done.stdout.splitlines() if "installing" in line]
    assert f": {said}" in told or said in told


def test_torch_that_was_asked_for_stays_when_other_scripts_set_up(project: Path) -> None:
    venv = f"printf '{PIP_THAT_SHOWS_ITS_PINS}' > .venv/bin/python; exit 0"
    _setup(project, venv, TORCH="2.13.0+cu126")
    assert _setup(project, venv).stdout == ""  # nothing is left to do
    _setup(project, venv, "--dev")
    pinned = (project / "pins.log").read_text(encoding="utf-8").splitlines()
    found = [line for line in pinned if line.startswith("torch=")]
    assert found == ["torch===2.13.0+cu126"] * 2


@pytest.mark.parametrize("folder", [".venv-ipex", "elsewhere/ipex"])
def test_ipex_gets_an_environment_of_its_own_with_the_torch_it_needs(
    project: Path, folder: str
) -> None:
    venv = f"mkdir -p {folder}/bin && printf '{PIP_THAT_SHOWS_ITS_PINS}' > {folder}/bin/python; "
    venv += f"chmod +x {folder}/bin/python; exit 0"
    variables = {} if folder == ".venv-ipex" else {"IPEX_VENV": folder}
    done = _setup(project, venv, "--ipex", **variables)
    assert (done.returncode, done.stderr) == (0, "")
    last_words = (project / "pip.log").read_text(encoding="utf-8").splitlines()
    assert last_words[-2:] == [".[dev,ipex,oneccl]", "vectorized_ops"]
    pinned = (project / "pins.log").read_text(encoding="utf-8").splitlines()
    assert set(pinned) == {
        line
        for line in (ROOT / "scripts/constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("torch==")
    }
    assert len(list((project / folder).glob("knltrain-*"))) == 1
    assert not list((project / ".venv").glob("knltrain-*"))


@pytest.mark.parametrize("folder", [".venv-zoo", "elsewhere/zoo"])
def test_the_zoo_gets_a_folder_of_its_own_once(project: Path, folder: str) -> None:
    venv = f"printf '{PIP_THAT_WORKS}' > .venv/bin/python; exit 0"
    variables = {} if folder == ".venv-zoo" else {"ZOO_VENV": folder}
    (project / folder).mkdir(parents=True)
    for _ in range(2):
        done = _setup(project, venv, "--zoo", **variables)
        assert (done.returncode, done.stderr) == (0, "")
    calls = (project / "pip.log").read_text(encoding="utf-8").splitlines()
    (installed,) = [call for call in calls if "--target" in call]
    assert f"--no-deps --upgrade --target {folder} timm==" in installed
    assert " torchvision==" in installed
    (project / "scripts/constraints.txt").write_text("torch==1\ntorchvision==9\ntimm==9\n")
    _setup(project, venv, "--zoo", **variables)
    assert "torchvision==9 timm==9" in (project / "pip.log").read_text(encoding="utf-8")
