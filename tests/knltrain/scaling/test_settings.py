"""Settings of runs, and in what they differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knltrain.errors import RunFolderError
from knltrain.scaling.settings import differences, settings_of

Run = Callable[..., Path]


def settings(folder: Path) -> dict[str, Any]:
    return settings_of(folder, json.loads((folder / "result.json").read_text()))


def differing(*folders: Path) -> list[str]:
    return differences([each.name for each in folders], list(map(settings, folders)))


def test_workers_nodes_batches_and_seeds_are_no_difference(run: Run) -> None:
    config = "seed = 7\nworkers = 2\nnodes = 2\nruns_folder = 'x'\n"
    config += "exchange = { between_nodes = 'gloo', moving_rate = 0.2 }"
    assert not differing(run("a", 1, [1.0], 8), run("b", 4, [1.0], 32, config=config, nodes=2))


@pytest.mark.parametrize(
    ("config", "note"),
    [
        ("[optimizer]\nname = 'adam'", "optimizer.name: sgd (a), adam (b)"),
        ("placement.threads_per_core = 2", "placement.threads_per_core: 1 (a), 2 (b)"),
        ("backend.algorithms = { '*' = 'direct' }", "algorithms: {} (a), {'*': 'direct'} (b)"),
        ("data.root = '/x'", "data.root: none (a), /x (b)"),
    ],
)
def test_other_settings_are_told_with_both_values(run: Run, config: str, note: str) -> None:
    folders = run("a", 1, [1.0], 8), run("b", 2, [1.0], 16, config=config)
    assert [each for each in differing(*folders) if note in each]


@pytest.mark.parametrize(
    ("config", "result", "told"),
    [
        ("", {"network": "alexnet"}, "network: lenet (a), alexnet (b)"),
        ("", {"data": "mnist"}, "data: digits (a), mnist (b)"),
        ("", {"method": "easgd"}, "method: sync_sgd (a), easgd (b)"),
        ("", {"backend": "torch"}, "backend: cpu (a), torch (b)"),
        ("backend = { name = 'torch', device = 'cuda:1' }", {}, "device: cpu (a), cuda (b)"),
        ("backend.precision = 'bfloat16'", {}, "precision: float32 (a), bfloat16 (b)"),
        ("data.side_pixels = 32", {}, "data.side_pixels: none (a), 32 (b)"),
    ],
)
def test_runs_whose_images_cost_something_else_are_refused(
    run: Run, config: str, result: dict[str, str], told: str
) -> None:
    folders = run("a", 1, [1.0], 8), run("b", 2, [1.0], 16, config=config, **result)
    with pytest.raises(RunFolderError) as raised:
        differing(*folders)
    assert f"runs that differ in {told}; expected runs that differ in workers" in str(raised.value)


@pytest.mark.parametrize("text", [None, "network = 3", "["])
def test_a_run_without_its_configuration_is_refused(run: Run, text: str | None) -> None:
    folder = run("a", 1, [1.0], 8)
    (folder / "config.toml").unlink()
    if text is not None:
        (folder / "config.toml").write_text(text)
    with pytest.raises(RunFolderError, match=r"a/config\.toml: (.|\n)*are compared by the config"):
        settings(folder)
