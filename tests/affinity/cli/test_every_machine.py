"""Every word of the command line on every machine that others described: it answers or refuses."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from affinity.cli.parser import main
from affinity.errors import TopologyError
from affinity.machine.read import read_machine


@pytest.fixture(scope="module")
def machines() -> list[Path]:
    folder = Path(__file__).parents[4] / "shared/topologies"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: the machines that others described lie there")
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES]
    assert len(files) > 12
    return [path for path in files if _is_a_machine(path)]


_SUFFIXES = (".xml", ".bz2", ".tgz", ".txt")


def _is_a_machine(path: Path) -> bool:
    try:
        read_machine(path)
    except TopologyError:
        return False
    return True


@pytest.mark.parametrize("words", [("show",), ("show", "--json"), ("plan", "--workers", "2")])
def test_every_machine_can_be_shown_and_planned_on(
    machines: list[Path], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for machine in machines:
        assert main([*words, "--machine", str(machine)]) == 0, machine
        assert len(capsys.readouterr().out) > 200


@pytest.mark.parametrize("words", [("show",), ("plan", "--workers", "numa")])
def test_every_machine_can_be_drawn(
    machines: list[Path], words: tuple[str, ...], tmp_path: Path
) -> None:
    for machine in machines:
        picture = tmp_path / f"{machine.name}.svg"
        assert main([*words, "--machine", str(machine), "--picture", str(picture)]) == 0, machine
        drawn = ElementTree.parse(picture).getroot()
        assert drawn.tag.endswith("svg")
        titles = [title.text or "" for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
        cores = [title for title in titles if title.startswith("core ")]
        assert len(cores) == len(read_machine(machine).cores), machine
