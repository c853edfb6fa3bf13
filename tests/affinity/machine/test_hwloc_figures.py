from __future__ import annotations

import pytest

from affinity.errors import TopologyError
from affinity.machine.hwloc_figures import Performance, read_distances, read_performance
from affinity.machine.hwloc_objects import read_objects
from affinity.machine.xml_tree import parse_xml

ROWS = ([10, 21, 13], [21, 10, 23], [13, 23, 10])
EXPECTED = {
    (row, column): ROWS[i][j]
    for i, row in enumerate((0, 1, 5))
    for j, column in enumerate((0, 1, 5))
}


def _read(text: str) -> dict[tuple[int, int], int]:
    topology = parse_xml(text, "m.xml")
    return read_distances(topology, read_objects(topology))


def _performance(text: str) -> dict[int | None, Performance]:
    topology = parse_xml(text, "m.xml")
    found = read_performance(topology, read_objects(topology))
    return {memory.os_index: performance for memory, performance in found.items()}


@pytest.mark.parametrize("name", [None, "NUMALatency"])
def test_distances_are_by_the_ids_in_the_matrix_with_or_without_its_later_name(hwloc, name) -> None:
    assert (
        _read(hwloc.topology(hwloc.core(0, 0), after=hwloc.distances([0, 1, 5], *ROWS, name=name)))
        == EXPECTED
    )


def test_matrix_may_come_in_pieces_of_any_length(hwloc) -> None:
    pieces = ([10, 21, 13, 21], [10], [23, 13, 23, 10])
    after = hwloc.distances([0, 1, 5], *pieces)
    assert _read(hwloc.topology(hwloc.core(0, 0), after=after)) == EXPECTED


def test_matrix_of_something_else_than_latencies_of_nodes_is_left(hwloc) -> None:
    bandwidth = hwloc.distances([0, 1, 5], *ROWS).replace('kind="5"', 'kind="9"')
    mine = hwloc.distances([0, 1, 5], *ROWS, name="MyOwn")
    gpus = hwloc.distances([0, 1, 5], *ROWS).replace('"NUMANode"', '"OSDev"')
    assert _read(hwloc.topology(hwloc.core(0, 0), after=bandwidth + mine + gpus)) == {}
    latency = hwloc.distances([0, 1, 5], *ROWS)
    assert _read(hwloc.topology(hwloc.core(0, 0), after=bandwidth + latency)) == EXPECTED


def test_matrix_with_a_value_missing_is_an_error_with_its_line(hwloc) -> None:
    after = hwloc.distances([0, 1], [10, 21], [21])
    with pytest.raises(TopologyError, match=r"line \d+: <distances2> has 3 values for 2 nodes: 4"):
        _read(hwloc.topology(hwloc.core(0, 0), after=after))
    with pytest.raises(TopologyError, match="something else than whole numbers in its u64values"):
        _read(hwloc.topology(hwloc.core(0, 0), after=after.replace("21 ", "x ")))


def _version_1(hwloc, *, depth: int, latencies: str) -> str:
    nodes = (
        hwloc.object("NUMANode", hwloc.core(0, cpu), os_index=node, cpus=[cpu])
        for node, cpu in ((2, 0), (7, 1))
    )
    package = hwloc.object("Socket", *nodes, os_index=0)
    values = "".join(f'<latency value="{value}"/>' for value in latencies.split())
    matrix = (
        f'<distances nbobjs="2" relative_depth="{depth}" latency_base="10.000000">'
        f"{values}</distances>"
    )
    return hwloc.topology(matrix, package)


def test_distances_of_hwloc_1_are_multiples_of_a_base_in_the_order_of_the_nodes(hwloc) -> None:
    text = _version_1(hwloc, depth=2, latencies="1.000000 2.100000 2.100000 1.000000")
    assert _read(text) == {(2, 2): 10, (2, 7): 21, (7, 2): 21, (7, 7): 10}


def test_distances_of_hwloc_1_between_cores_are_not_taken_for_those_of_nodes(hwloc) -> None:
    assert _read(_version_1(hwloc, depth=3, latencies="1 2 2 1")) == {}


def test_latency_of_hwloc_1_that_is_no_number_is_an_error(hwloc) -> None:
    for damaged in ("1 2 2 x", "1 2 2 inf"):
        with pytest.raises(TopologyError, match="<distances> has latencies that are no numbers"):
            _read(_version_1(hwloc, depth=2, latencies=damaged))


def _two_nodes(hwloc, after: str) -> str:
    cores = (hwloc.core(0, 0, 1), hwloc.core(1, 2, 3))
    return hwloc.topology(hwloc.node(0, [0, 1]), hwloc.node(4, [0, 1]), *cores, after=after)


def test_figures_are_those_seen_from_the_cpus_next_to_the_memory(hwloc) -> None:
    after = (
        hwloc.memattr("Capacity", {0: (1 << 30, [])})
        + hwloc.memattr("ReadBandwidth", {0: (260_000, [0, 1]), 4: (700_000, [0, 1])})
        + hwloc.memattr("ReadBandwidth", {4: (90_000, [2, 3])})
        + hwloc.memattr("WriteBandwidth", {0: (130_000, [0, 1])})
        + hwloc.memattr("Bandwidth", {0: (195_000, [0, 1]), 4: (650_000, [0, 1])})
        + hwloc.memattr("Latency", {0: (110, [0, 1]), 4: (130, [0, 1])})
    )
    assert _performance(_two_nodes(hwloc, after)) == {
        0: Performance(260_000, 130_000, 110, zero=False),
        4: Performance(700_000, 650_000, 130, zero=False),
    }


def test_zeros_are_figures_that_the_firmware_left_out(hwloc) -> None:
    after = hwloc.memattr("Bandwidth", {0: (0, [0, 1])}) + hwloc.memattr("Latency", {0: (0, [0])})
    assert _performance(_two_nodes(hwloc, after)) == {0: Performance(None, None, None, zero=True)}


def test_initiator_may_be_an_object_or_missing(hwloc) -> None:
    package = hwloc.object("Package", hwloc.core(0, 0), os_index=0, gp_index=9)
    after = (
        '<memattr name="Bandwidth" flags="5"><memattr_value target_obj_gp_index="101" value="5" '
        'initiator_obj_type="Package" initiator_obj_gp_index="9"/></memattr>'
        '<memattr name="Latency" flags="2"><memattr_value target_obj_gp_index="101" value="7"/>'
        "</memattr>"
    )
    text = hwloc.topology(hwloc.node(1, [0]), package, after=after)
    assert _performance(text) == {1: Performance(5, 5, 7, zero=False)}
