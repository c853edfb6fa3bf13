"""The collective between nodes by MPI; `test_torch_collective` has it beside the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ...ranks import Ranks

PROGRAM = Path(__file__).parents[1] / "mpi" / "node_of_mpi.py"


@pytest.mark.parametrize("nodes", [1, 3])
def test_operations_do_what_the_seam_says(mpi_version: str, tmp_path: Path, nodes: int) -> None:
    if "Open MPI" in mpi_version:
        pytest.skip(f"{mpi_version} needs its own launcher")
    members = Ranks([[str(PROGRAM), str(node), str(nodes), str(tmp_path)] for node in range(nodes)])
    total = float(sum(range(1, nodes + 1)))
    try:
        for node, member in enumerate(members.processes):
            out, _ = member.communicate(timeout=120)
            assert member.returncode == 0
            found = json.loads(out.splitlines()[-1])
            assert found["name"] == "mpi"
            assert found["sums"] == [[], [total], [total], [total]]
            assert found["reduced"] == ([total] * 3 if node == 0 else None)
            assert found["broadcast"] == [1.0] * 3
            assert found["gathered"] == [[each, 0.5] for each in range(nodes)]
            assert found["rows"] == [[each, each] for each in range(nodes)]
    finally:
        members.end()
