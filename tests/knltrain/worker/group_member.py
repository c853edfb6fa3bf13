"""One worker of a run in groups: `group_member.py RUN_FOLDER RANK PAUSE_SECONDS FD FD`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from knltrain.assembly import build_worker
from knltrain.config import load_config
from knltrain.exchange.transports.joining import join
from knltrain.worker.observer import Observer


class Pauses(Observer):
    """Sleeps after every step, and says when the first one is done."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def step_done(self, _worker: Any, step: int, *_: Any) -> None:
        if step == 1:
            print("begun", flush=True)
        time.sleep(self._seconds)


def main() -> None:
    folder, rank, seconds, *fds = sys.argv[1:]
    run, number = Path(folder), int(rank)
    team = join([int(fd) for fd in fds], number, 60)
    pauses = Pauses(float(seconds))
    config = load_config(run / "run.toml")
    with build_worker(config, team, run_folder=run, threads=1, observers=(pauses,)) as worker:
        result = worker.run()
        print(json.dumps([worker.step, result.steps, result.worker_steps]))


if __name__ == "__main__":
    main()
