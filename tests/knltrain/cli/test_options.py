"""Options and their types."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from knltrain.cli.options import (
    ABOVE_ZERO,
    CONFIG,
    NOT_NEGATIVE,
    RUN_FOLDER,
    refuse_own_keys,
    refuse_without,
)


def test_a_tilde_is_a_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert CONFIG.convert("~/run.toml", None, None) == tmp_path / "run.toml"
    assert CONFIG.convert("./~", None, None) == Path("~")
    assert CONFIG.convert("run.toml", None, None) == Path("run.toml")
    (tmp_path / "run").mkdir()
    assert RUN_FOLDER.convert("~/run", None, None) == tmp_path / "run"


def test_home_of_nobody_and_folder_that_is_not_there_are_refused() -> None:
    with pytest.raises(click.BadParameter, match="'~nobody-at-all/a': no home folder is known"):
        CONFIG.convert("~nobody-at-all/a", None, None)
    with pytest.raises(click.BadParameter, match="does not exist"):
        RUN_FOLDER.convert("~/nothing-of-that-name", None, None)


def test_numbers_are_finite() -> None:
    assert (ABOVE_ZERO.convert("2.5", None, None), NOT_NEGATIVE.convert("0", None, None)) == (
        2.5,
        0,
    )
    for kind in (ABOVE_ZERO, NOT_NEGATIVE):
        for text in ("nan", "inf", "-1"):
            with pytest.raises(click.BadParameter, match=f"{text}.* is no"):
                kind.convert(text, None, None)


def test_keys_that_a_command_sets_itself_are_refused() -> None:
    own = {"train.batch": "--batches"}
    refuse_own_keys(("train.batches=2", "batch=3"), own)
    with pytest.raises(click.UsageError, match=r"--set train\.batch: expected --batches"):
        refuse_own_keys(("seed=1", " train.batch = 2"), own)


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [((), False), (("--a-b", "1"), True), (("--a-b", "2", "--with"), False)],
)
def test_an_option_without_the_one_that_needs_it_is_refused(
    words: tuple[str, ...], is_refused: bool
) -> None:
    @click.command()
    @click.option("--a-b", default=1)
    @click.option("--with", "is_given", is_flag=True)
    def command(a_b: int, is_given: bool) -> None:
        del a_b
        refuse_without("--with", is_given, ("a_b",))

    ended = CliRunner().invoke(command, words)
    assert ended.exit_code == 2 * is_refused
    assert ("--a-b without --with: expected both" in ended.output) is is_refused
