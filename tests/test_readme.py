"""The README's map and tour lead to places that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOP_LEVEL = ("affinity", "vectorized_ops", "knltrain/", "configs", "scripts", "tests")


def paths(text: str) -> list[str]:
    """The backticked paths of this repository that a text names, without arguments."""
    quoted = re.findall(r"`([^`\s]+)`", text)
    return [path for path in quoted if path.startswith(TOP_LEVEL) or path.endswith(".md")]


def section(title: str) -> str:
    return README.split(f"# {title}\n", 1)[1].split("\n## ", 1)[0]


def test_no_figure_is_missing() -> None:
    assert "@@" not in README


def test_every_path_exists() -> None:
    named = paths(README)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_tour_is_five_to_seven_files_in_order() -> None:
    steps = re.findall(r"^(\d)\. `([^`]+)`", section("A tour in seven files"), re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 5 <= len(steps) <= 7
    assert all((ROOT / path).is_file() for _, path in steps)


def test_map_names_every_package_and_top_module() -> None:
    named = set(paths(section("The map")))
    inside = {
        f"knltrain/{path.name}"
        for path in (ROOT / "knltrain").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert inside - named == {"knltrain/__init__.py", "knltrain/__main__.py"}
    assert {"affinity", "vectorized_ops"} <= named


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"`knltrain ([\w-]+(?: step)?) ?", README)))
)
def test_every_command_is_known(command: str) -> None:
    from knltrain.cli import commands

    assert CliRunner().invoke(commands, [*command.split(), "--help"]).exit_code == 0


def test_setup_commands_are_executable_scripts() -> None:
    for name in re.findall(r"^    (scripts/\w+)", README, re.MULTILINE):
        assert (ROOT / name).stat().st_mode & 0o111
