"""The shipped configurations: each fits its data, and the commands of its head can be typed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from knltrain.assembly import build_network, check_names, check_run, image_shape_of, resolved
from knltrain.config import RunConfig, load_config

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))


def commands(config: Path) -> list[list[str]]:
    """The words of each command in the head of a configuration, behind `knltrain train`."""
    found = re.findall(r"^#     (?:\w.* )?knltrain train (.*)$", config.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in found]


def overrides_of(words: list[str]) -> list[str]:
    return [word for before, word in pairwise(words) if before == "--set"]


def computed(config: Path) -> list[str]:
    """The overrides of the command that needs no files, which sets one name to 'random'."""
    own = [overrides_of(words) for words in commands(config)]
    found = [words for words in own if "data.name=random" in words]
    return found[0] if found else ["data.name=random"]


def test_there_are_configurations() -> None:
    assert len(CONFIGS) > 20


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_commands_of_the_head_are_those_of_the_file(config: Path) -> None:
    found = commands(config)
    assert found
    for words in found:
        assert words[0] == f"configs/{config.name}"
        chosen = load_config(config, overrides_of(words))
        check_names(chosen)
        assert chosen.name == config.stem


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_network_fits_computed_pictures(config: Path) -> None:
    """By the command of the head that needs no files, or with pictures of the network's size."""
    chosen = load_config(config, computed(config))
    images = {"train_images": chosen.train.batch, "test_images": 10}
    small = chosen.data.model_copy(update=images)
    run = resolved(chosen.model_copy(update={"data": small}), most=2)
    assert image_shape_of(run) == build_network(run).input_shape
    assert check_run(run).total_steps > 0


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_two_workers_train_a_step(config: Path, tmp_path: Path) -> None:
    """Each with one computed picture, by the method of the recipe."""
    small = (
        *("data.name=random", "data.train_images=4", "data.test_images=2", "train.batch=2"),
        *("train.iter_size=1", "train.steps=1", "evaluation.every_epochs=0"),
        *("checkpoint.every_epochs=0", "placement.pin=false", "backend.threads=1"),
    )
    settings = [word for setting in small for word in ("--set", setting)]
    words = ("train", config, "--workers", "2", "--no-pictures", *settings)
    done = subprocess.run(
        [sys.executable, "-m", "knltrain", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "runs" / config.stem / "result.json").read_text())
    assert result["steps"] == 1


def rows_of_the_page() -> dict[str, list[str]]:
    """The cells of docs/recipes.md by configuration."""
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in (ROOT / "docs/recipes.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    return {cells[0].strip("`"): cells for cells in rows}


def test_page_lists_every_configuration() -> None:
    assert sorted(rows_of_the_page()) == [path.stem for path in CONFIGS]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_page_has_its_numbers(config: Path) -> None:
    chosen: RunConfig = load_config(config)
    _, network, _source, _workers, batch, rate, *_ = rows_of_the_page()[config.stem]
    assert network == chosen.network.name
    assert int(batch.replace(",", "")) == chosen.train.batch
    assert float(rate) == chosen.learning_rate.base


def test_accuracies_of_the_readme_are_those_that_were_measured() -> None:
    """By `scripts/accuracy`, whose figures are kept, or as the page of recipes has them."""
    section = (ROOT / "README.md").read_text().split("\n## Accuracy\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    kept = (ROOT / "docs/figures/2026-11-30-zen4/accuracy.json").read_text()
    measured = {(row["network"], row["method"]): row for row in json.loads(kept)}
    timed = [row for row in rows if row[-1]]
    assert len(timed) == len(measured)
    for _, network, method, *told in timed:
        name = {"SGD": "one"}.get(method, method.strip("`"))
        found = measured[network.lower(), name]
        assert told == [
            str(found["workers"]),
            f"{found['images']:,}",
            f"{100 * found['accuracy']:.2f}",
            f"{found['seconds']:.0f}",
            f"{found['equal_seconds']:.0f}",
            f"{100 * found['accuracy_then']:.2f}",
        ]
    page = (ROOT / "docs/recipes.md").read_text().split("## What they reach here")[1]
    (signs,) = (row for row in rows if not row[-1])
    (line,) = (line for line in page.splitlines() if "| `hand_signs`" in line)
    assert f" {signs[4]} | {signs[5]} |" in line
