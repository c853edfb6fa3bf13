from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from affinity.cli.picture.blocks import Rectangle, Words
from affinity.cli.picture.draw import draw_machine, write_picture
from affinity.errors import AffinityError
from affinity.placement.plan import Plan
from affinity.topology import Topology


def test_picture_shows_the_whole_machine_with_its_workers(
    knights_landing: Topology, knights_plan: Plan, tmp_path: Path
) -> None:
    write_picture(tmp_path / "plan.svg", knights_landing, knights_plan)
    root = ElementTree.parse(tmp_path / "plan.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for text in (
        "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz",
        "package 0",
        "node 3: 16 cores in 8 tiles",
        "MCDRAM 6: 4.0 GiB, 90 GB/s",
        "worker 3: 16 threads, memory MCDRAM 6 → DRAM 3",
    ):
        assert text in texts
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum(title.startswith("core ") for title in titles) == 68
    assert sum(title.startswith("cpu ") for title in titles) == 272


def test_everything_lies_inside_the_picture(knights_landing: Topology, knights_plan: Plan) -> None:
    block = draw_machine(knights_landing, knights_plan)
    for shape in block.shapes:
        right = shape.x + (shape.width if isinstance(shape, Rectangle) else 0)
        bottom = shape.y + (shape.height if isinstance(shape, Rectangle) else 0)
        assert 0 <= shape.x <= right <= block.width
        assert 0 <= shape.y <= bottom <= block.height


def test_memory_of_several_nodes_is_drawn_below_the_packages(xeon_max: Topology) -> None:
    nodes = (*xeon_max.numa_nodes[:3], replace(xeon_max.numa_nodes[3], near=(0, 1)))
    block = draw_machine(replace(xeon_max, numa_nodes=nodes))
    heights = {shape.text: shape.y for shape in block.shapes if isinstance(shape, Words)}
    assert heights["HBM 3: 64.0 GiB, 700 GB/s"] > heights["HBM 2: 64.0 GiB, 700 GB/s"]
    assert heights["HBM 3: 64.0 GiB, 700 GB/s"] > block.height - 60


def test_other_kinds_of_pictures_are_refused(small_vm: Topology, tmp_path: Path) -> None:
    with pytest.raises(AffinityError, match=r"machine\.gif: the name has to end in \.svg or \.png"):
        write_picture(tmp_path / "machine.gif", small_vm)


def test_folder_that_is_not_there_is_named(small_vm: Topology, tmp_path: Path) -> None:
    with pytest.raises(AffinityError, match=r"none/machine\.svg: No such file or directory"):
        write_picture(tmp_path / "none" / "machine.svg", small_vm)
