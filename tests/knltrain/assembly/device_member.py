"""One worker of a run: `device_member.py RUN_FOLDER RANK PLACE FD...`; PLACE is host or device.

Prints digests of its parameters and of the model, and their lengths. On a "device" the host keeps
copies apart.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from knltrain.assembly import worker as assembly
from knltrain.assembly.teams import build_team
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.config import load_config


def main() -> None:
    folder, rank, place, *fds = sys.argv[1:]
    config = load_config(Path(folder) / "run.toml")
    if place == "device":
        assembly.build_space = lambda _config: Mirrors(HOST, are_apart=True)
    else:
        own = config.exchange.model_copy(update={"within_nodes": "segment"})
        config = config.model_copy(update={"exchange": own})
    team = build_team(config, [int(fd) for fd in fds], int(rank))
    run = Path(folder) / place
    with assembly.build_worker(config, team, run_folder=run, threads=1) as worker:
        worker.run()
        vectors = worker.parameters, worker.model
        print(json.dumps([hashlib.sha256(each.tobytes()).hexdigest() for each in vectors]))
        print(json.dumps([float(np.linalg.norm(each)) for each in vectors]))


if __name__ == "__main__":
    main()
