"""What `knltrain predict` prints of files, folders and lists of them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from knltrain import cli

from ..trained_run import trained_run, write_pictures

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]
NAMES = {"dark": "night", "light": "bright day", "split": "dusk"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("pictures"), NAMES, count=4)


@pytest.fixture(scope="module")
def run_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("runs") / "run", root)


def test_files_and_folders_have_a_line_each(invoke: Invoke, run_folder: Path, root: Path) -> None:
    (root / "test/.hidden").mkdir(exist_ok=True)
    (root / "test/.hidden/a.png").write_text("x")
    (root / "test/notes.txt").write_text("x")
    told = invoke("predict", str(run_folder), str(root / "train/dusk/1.png"), str(root / "test"))
    assert told.exit_code == 0
    lines = [line.split("\t") for line in told.stdout.splitlines()]
    files = sorted((root / "test").glob("[!.]*/*.png"))
    assert [name for name, _, _ in lines] == list(map(str, [root / "train/dusk/1.png", *files]))
    assert all(Path(name).parent.name == found for name, found, _ in lines)
    assert all(0.5 < float(share) <= 1 for _, _, share in lines)


def test_several_classes_of_names_on_standard_input(run_folder: Path, root: Path) -> None:
    names = f"{root}/test/night/0.png\n\n{root}/test/dusk/0.png\n"
    arguments = ["predict", str(run_folder), "-", "--top", "2", "--crops", "10"]
    told = CliRunner().invoke(cli.commands, arguments, input=names)
    found = [line.split("\t")[:2] for line in told.stdout.splitlines()]
    kinds = ("night", "night", "dusk", "dusk")
    assert [name for name, _ in found] == [f"{root}/test/{kind}/0.png" for kind in kinds]
    assert (found[0][1], found[2][1]) == ("night", "dusk")


@pytest.mark.parametrize("as_json", [False, True])
def test_broken_pictures_are_named_and_told_by_the_status(
    exit_code: ExitCode,
    capsys: pytest.CaptureFixture[str],
    run_folder: Path,
    root: Path,
    tmp_path: Path,
    as_json: bool,
) -> None:
    (tmp_path / "a.jpg").write_text("nothing")
    pictures = str(tmp_path / "a.jpg"), str(root / "test/dusk/0.png"), str(tmp_path / "gone.png")
    assert exit_code("predict", str(run_folder), *pictures, *["--json"] * as_json) == 2
    out, told = capsys.readouterr()
    assert "error: 2 of 3 pictures cannot be read" in told
    assert "data.broken" not in out + told
    if as_json:
        first, second, third = map(json.loads, out.splitlines())
        assert "JPEG, PNG" in first["error"]
        assert third["picture"] == pictures[2]
        assert [each["class"] for each in second["classes"]] == ["dusk"]
        assert second["classes"][0]["probability"] > 0.5
        return
    assert [line.split("\t")[1] for line in out.splitlines()] == ["dusk"]
    assert told.count("broken: ") == 2


def test_all_values_of_the_mean_squared_error_are_told(
    invoke: Invoke, root: Path, tmp_path: Path
) -> None:
    picture = str(root / "test/night/0.png")
    folder = trained_run(tmp_path / "a", root, loss__kind="mean_squared_error", train__steps=1)
    lines = invoke("predict", str(folder), picture).stdout.splitlines()
    assert [line.split("\t")[1] for line in lines] == ["bright day", "dusk", "night"]
    told = json.loads(invoke("predict", str(folder), picture, "--json").stdout)
    assert [list(each) for each in told["classes"]] == [["class", "value"]] * 3


def test_folders_without_pictures_are_refused(
    invoke: Invoke, run_folder: Path, tmp_path: Path
) -> None:
    error = invoke("predict", str(run_folder), str(tmp_path)).exception
    assert "holds no pictures" in str(error)


def test_no_names_and_names_that_are_too_long_are_told(
    exit_code: ExitCode,
    capsys: pytest.CaptureFixture[str],
    run_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert exit_code("predict", str(run_folder), "a" * 300) == 2
    assert "cannot be read (File name too long)" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert exit_code("predict", str(run_folder), "-") == 2
    assert "standard input names no pictures" in capsys.readouterr().err
