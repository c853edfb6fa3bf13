"""How long a new process takes to the first batch of a folder of many files."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from knltrain.bench.data.written import CLASSES, smooth_pictures, written_folder
from knltrain.config import RunConfig
from knltrain.data.readers.index import SETTLED_SECONDS
from knltrain.errors import KnltrainError

IMAGES: Final = 256
"""Of the first batch."""
PIXELS: Final = 64
"""Of the pictures, whose number is what counts."""


def run_first_batch_benchmark(files: int, rounds: int) -> dict[str, Any]:
    """Seconds from the start of a process to its first batch of a folder of so many JPEGs.

    `with_index` and `without_index` are medians over the rounds; before them a process compiles
    kernels, and the files are in the page cache. Mean and deviation are given.
    """
    with TemporaryDirectory(prefix="knltrain-bench-") as name:
        root, home = Path(name) / "data", Path(name) / "home"
        written_folder(root, smooth_pictures(1, PIXELS, 3), files)
        time.sleep(SETTLED_SECONDS)  # no index is kept of a folder that changes
        _seconds(root, home)
        seconds: dict[str, list[float]] = {"with_index": [], "without_index": []}
        for _ in range(rounds):
            seconds["with_index"].append(_seconds(root, home))
            for index in home.glob(".cache/knltrain/indexes/*"):
                index.unlink()
            seconds["without_index"].append(_seconds(root, home))
    return {
        "files": files,
        "images": IMAGES,
        **{name: statistics.median(each) for name, each in seconds.items()},
    }


def _seconds(root: Path, home: Path) -> float:
    begin = time.monotonic()
    command = ["env", f"HOME={home}", sys.executable, "-m", __name__, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = done.stderr.strip().rpartition("\n")[2]
        raise KnltrainError(f"the first batch of {root} failed: {told}")
    return float(done.stdout) - begin


def first_batch(root: Path) -> float:
    """Make the first batch of a folder; the time on the clock when it is there."""
    from knltrain.assembly.names import build_dataset
    from knltrain.data.dataset import Batch

    config = RunConfig.model_validate(
        {
            "network": {"name": "resnet-18", "classes": CLASSES},
            "data": {
                "name": "folder",
                "root": str(root),
                "side_pixels": PIXELS,
                "recipe": "caffe",
                "mean": "imagenet",
                "deviation": "imagenet",
            },
            "train": {"steps": 1, "batch": IMAGES},
            "learning_rate": {"base": 0.1},
        }
    )
    dataset = build_dataset(config)
    count = min(IMAGES, len(dataset.train))
    rows = np.random.default_rng(1).permutation(len(dataset.train))[:count].astype(np.int64)
    dataset.train.write(rows, Batch.allocate(count, (PIXELS, PIXELS, 3)))
    return time.monotonic()


if __name__ == "__main__":
    print(first_batch(Path(sys.argv[1])))
