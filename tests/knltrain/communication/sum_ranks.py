"""One worker of a node that adds up tensors: `sum_ranks.py RANK WORKERS FOLDER SCENARIO`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

from knltrain.communication.device_sum import TensorSum
from knltrain.errors import KnltrainError, PeerLost


def main() -> None:
    rank, workers, folder, scenario = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    place = Path(folder) / "port"

    def tell(number: int) -> int:
        if number:
            (place.with_suffix(".new")).write_text(str(number))
            place.with_suffix(".new").rename(place)
        while not place.exists():
            time.sleep(0.01)
        return int(place.read_text())

    sums = TensorSum("cpu", rank, workers, tell, 10.0)
    values = torch.arange(5, dtype=torch.float32) + rank
    for _ in range(3):
        sums.all_reduce(values, lambda: None)
    print(json.dumps(values.tolist()), flush=True)
    if scenario == "one ends":
        if rank == 0:
            os._exit(3)
        try:
            sums.all_reduce(values, lambda: None)
        except KnltrainError as error:
            print(json.dumps([type(error).__name__, str(error)]), flush=True)
    if scenario == "one is late" and rank == 0:
        time.sleep(2.0)
    elif scenario == "one is late":
        waits_since = time.monotonic()

        def check() -> None:
            if time.monotonic() - waits_since > 0.5:
                raise PeerLost("worker 0 failed elsewhere")

        try:
            sums.all_reduce(values, check)
        except PeerLost as error:
            print(json.dumps([str(error)]), flush=True)
    sums.close()


if __name__ == "__main__":
    main()
