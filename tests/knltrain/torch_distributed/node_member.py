"""A node of the tests: `node_member.py BACKEND SCENE NODE NODES PORT FD`; prints JSON lines."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

from knltrain.cluster import MeetingPoint
from knltrain.errors import KnltrainError
from knltrain.torch_distributed.between_nodes import TorchCollective


def tell(what: Any) -> None:
    print(json.dumps(what), flush=True)


def operations(found: TorchCollective) -> None:
    tell([found.node, found.nodes, found.name])
    values = (np.arange(50_001) % 7 * (found.node + 1)).astype(np.float32)
    found.all_reduce(values)
    tell(bool(np.array_equal(values, np.arange(50_001) % 7 * sum(range(found.nodes + 1)))))
    values = np.full(1000, found.node + 1, np.float32)
    found.reduce(values)
    tell([float(values.min()), float(values.max())])
    values = np.full(2, found.node + 1, np.float32)
    found.broadcast(values)
    tell(values.tolist())
    tell(found.gather(np.array([found.node, 0.5])).tolist())


def late(found: TorchCollective) -> None:
    values = np.ones(1000, np.float32)
    found.all_reduce(values)
    if found.node:
        time.sleep(4)
        os._exit(0)
    found.all_reduce(values)


def killed(found: TorchCollective) -> None:
    values = np.ones(1000, np.float32)
    found.all_reduce(values)
    if found.node:
        os.kill(os.getpid(), 9)
    found.all_reduce(values)


def main() -> int:
    backend, scene, node, nodes, port, fd = sys.argv[1:]
    point = MeetingPoint("127.0.0.1", int(port), "127.0.0.1", None if fd == "-" else int(fd))
    try:
        limit = 1 if scene == "late" else 30
        found = TorchCollective(backend, int(node), int(nodes), point, limit, 60)
        {"operations": operations, "late": late, "killed": killed}[scene](found)
        found.close()
    except KnltrainError as error:
        tell([type(error).__name__, str(error)])
        sys.stdout.flush()
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
