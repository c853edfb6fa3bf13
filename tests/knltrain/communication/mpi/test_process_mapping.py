from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.communication.mpi.process_mapping import process_mapping, this_node
from knltrain.errors import CollectiveError


@pytest.mark.parametrize(
    ("nodes", "mapping"),
    [
        ("a", "(vector,(0,1,1))"),
        ("aaa", "(vector,(0,1,3))"),
        ("ab", "(vector,(0,2,1))"),
        ("bbaacc", "(vector,(0,3,2))"),
        ("aab", "(vector,(0,1,2),(1,1,1))"),
        ("abbc", "(vector,(0,1,1),(1,1,2),(2,1,1))"),
        ("abab", "(vector,(0,2,1),(0,2,1))"),
        ("aabba", "(vector,(0,2,2),(0,1,1))"),
    ],
)
def test_ranks_in_a_row_are_blocks_of_nodes(nodes, mapping):
    assert process_mapping(list(nodes)) == mapping


def test_a_thousand_nodes_alike_are_one_block():
    assert process_mapping([f"n{rank // 4}" for rank in range(4000)]) == "(vector,(0,1000,4))"


def test_so_many_blocks_that_no_library_reads_them_are_refused():
    uneven = [f"n{node}" for node in range(300) for _ in range(1 + node % 2)]
    with pytest.raises(CollectiveError, match="450 ranks on 300 nodes in 300 blocks"):
        process_mapping(uneven)


def test_processes_of_one_computer_are_on_one_node():
    module = "knltrain.communication.mpi.process_mapping"
    command = f"from {module} import this_node; print(this_node(), end='')"
    root = Path(__file__).parents[4]
    other = subprocess.run(
        [sys.executable, "-c", command], cwd=root, capture_output=True, text=True, check=True
    )
    assert other.stdout == this_node()
