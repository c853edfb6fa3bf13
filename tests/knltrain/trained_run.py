"""The folder of a run that was trained in this process, on pictures of three kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from knltrain.assembly import build_network, build_worker, check_run
from knltrain.assembly.preprocessing import with_numbers
from knltrain.assembly.teams import build_team
from knltrain.config import RunConfig
from knltrain.launch.run_folder import write_config, write_network, write_preprocessing

KINDS = ("dark", "light", "split")


def picture_of(kind: str, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A picture uint8 (40,30,3) of a kind."""
    noise = np.random.default_rng((seed, KINDS.index(kind))).integers(0, 60, (40, 30, 3))
    pixels = noise + {"dark": 0, "light": 190, "split": 0}[kind]
    if kind == "split":
        pixels[:20] += 190
    return pixels.astype(np.uint8)


def write_pictures(root: Path, names: dict[str, str], count: int = 8) -> Path:
    """`count` pictures of each kind in root/train and root/test, as classes that `names` tells."""
    for half, first in (("train", 0), ("test", 100)):
        for kind, name in names.items():
            folder = root / half / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(picture_of(kind, first + number)).save(folder / f"{number}.png")
    return root


def trained_run(folder: Path, root: Path, **changes: Any) -> Path:
    """A run of LeNet in `folder`, of some steps on the grey pictures below `root`."""
    folder.mkdir()
    tables: dict[str, Any] = {
        "workers": 1,
        "network": {"name": "lenet", "classes": 3},
        "data": {
            "name": "folder",
            "root": str(root),
            "channels": 1,
            "side_pixels": 28,
            "recipe": "caffe",
        },
        "train": {"steps": 12, "batch": 12},
        "learning_rate": {"base": 0.01},
        "backend": {"name": "torch", "implementation": "reference", "threads": 1},
        "checkpoint": {"every_epochs": 1},
    }
    for key, value in changes.items():
        table, _, name = key.partition("__")
        tables.setdefault(table, {})[name] = value
    config = RunConfig.model_validate(tables)
    size = check_run(config)
    config = with_numbers(config, size.preprocessing)
    write_network(folder, build_network(config))
    write_preprocessing(folder, size.preprocessing)
    write_config(folder, config)
    team = build_team(config, (), 0)
    with build_worker(config, team, run_folder=folder, threads=1) as worker:
        worker.run()
    return folder
