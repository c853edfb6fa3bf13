"""A node of a collective by MPI: `node_of_mpi.py NODE NODES FOLDER`; prints a line of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from folder_store import FolderStore

from knltrain.communication.internode.mpi_collective import MpiCollective


def main(node: int, nodes: int, folder: Path) -> None:
    collective = MpiCollective(node, nodes, FolderStore(folder), None, 30.0, 60.0)
    sums = [np.full(size, node + 1, np.float32) for size in (0, 1, 5, 10_007)]
    for values in sums:
        collective.all_reduce(values)
    first = np.full(3, node + 1, np.float32)
    collective.reduce(first)
    same = np.full(3, node + 1, np.float32)
    collective.broadcast(same)
    rows = np.zeros((nodes, 2), np.uint8)
    collective.all_gather(np.full(2, node, np.uint8), rows)
    found = {
        "name": collective.name,
        "sums": [sorted(set(values.tolist())) for values in sums],
        "reduced": first.tolist() if node == 0 else None,
        "broadcast": same.tolist(),
        "gathered": collective.gather(np.array([node, 0.5])).tolist(),
        "rows": rows.tolist(),
    }
    collective.close()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
