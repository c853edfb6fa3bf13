from __future__ import annotations

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description
from affinity.machine.libvirt_memory import bytes_of
from affinity.machine.libvirt_xml import describe_libvirt_xml
from affinity.machine.xml_tree import parse_xml
from affinity.topology import SideCache

MIB = 1 << 20


def _describe(links: str, *, cells: str = "") -> Description:
    """Two cells with cpus and one without, with what `links` says of them."""
    own = "<cell id='0' cpus='0' memory='1'/><cell id='1' cpus='1' memory='1'/>"
    numa = f"<numa>{cells or own}<cell id='2' memory='1'/>\n{links}</numa>"
    return describe_libvirt_xml(f"<domain><vcpu>2</vcpu><cpu>{numa}</cpu></domain>", "vm.xml")


def _link(tag: str, pair: str, value: int, **more: str) -> str:
    origin, target = pair.split("-")
    named = "".join(f" {name}='{text}'" for name, text in {"type": "access", **more}.items())
    return f"<{tag} initiator='{origin}' target='{target}' value='{value}'{named}/>"


def _links(*links: str) -> str:
    return f"<interconnects>{''.join(links)}</interconnects>"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("<memory>3</memory>", 3 * 1024),
        ("<memory unit='b'>3</memory>", 3),
        ("<memory unit='bytes'>3</memory>", 3),
        ("<memory unit='KB'>3</memory>", 3000),
        ("<memory unit='k'>3</memory>", 3 * 1024),
        ("<memory unit='MiB'>3</memory>", 3 * MIB),
        ("<memory unit='G'> 3\n</memory>", 3 * 1024 * MIB),
        ("<memory unit='TB'>3</memory>", 3 * 10**12),
    ],
)
def test_amounts_are_in_kib_or_in_the_unit_they_name(text: str, size: int) -> None:
    assert bytes_of(parse_xml(text, "vm.xml")) == size


def test_distances_said_once_count_in_both_directions_and_the_rest_is_linux_s_default() -> None:
    cells = (
        "<cell id='0' cpus='0' memory='1'><distances><sibling id='1' value='21'/>"
        "<sibling id='2' value='13'/></distances></cell>"
        "<cell id='1' cpus='1' memory='1'><distances><sibling id='0' value='22'/>"
        "</distances></cell>"
    )
    assert _describe("", cells=cells).distances == {
        (0, 0): 10,
        (0, 1): 21,
        (0, 2): 13,
        (1, 0): 22,
        (1, 1): 10,
        (1, 2): 20,
        (2, 0): 13,
        (2, 1): 20,
        (2, 2): 10,
    }


def test_distances_that_nobody_says_are_not_made_up() -> None:
    assert _describe("").distances == {}


def test_distance_to_a_cell_that_is_not_there_is_an_error() -> None:
    cells = (
        "<cell cpus='0-1' memory='1'><distances>\n<sibling id='7' value='2'/></distances></cell>"
    )
    with pytest.raises(TopologyError, match="line 2: <sibling> has id 7 and value 2: expected a"):
        _describe("", cells=cells)


def test_memory_without_cpus_is_nearest_to_those_with_the_least_latency() -> None:
    links = _links(
        _link("bandwidth", "0-2", 900, unit="GiB"),
        _link("latency", "0-2", 300),
        _link("bandwidth", "1-2", 700, unit="GiB"),
        _link("latency", "1-2", 130),
    )
    node = _describe(links).nodes[2]
    assert (node.initiators, node.initiators_source) == ((1,), "libvirt's table of interconnects")
    assert (node.read_bandwidth, node.read_latency) == (700 * 1024, 130)


def test_without_latencies_the_most_bandwidth_is_nearest() -> None:
    links = _links(
        _link("bandwidth", "0-2", 100, unit="MiB"), _link("bandwidth", "1-2", 200, unit="MiB")
    )
    node = _describe(links).nodes[2]
    assert (node.initiators, node.read_bandwidth, node.read_latency) == ((1,), 200, None)


def test_cpus_without_a_latency_are_not_the_nearest_for_that() -> None:
    links = _links(_link("bandwidth", "0-2", 100, unit="MiB"), _link("latency", "1-2", 130))
    assert _describe(links).nodes[2].initiators == (1,)


def test_memory_with_cpus_is_seen_from_its_own() -> None:
    links = _links(
        _link("bandwidth", "0-0", 100, unit="MiB"),
        _link("bandwidth", "1-0", 999, unit="MiB"),
        _link("bandwidth", "1-1", 50, unit="MiB", type="read"),
        _link("bandwidth", "1-1", 40, unit="MiB", type="write"),
    )
    nodes = _describe(links).nodes
    assert (nodes[0].read_bandwidth, nodes[0].write_bandwidth) == (100, 100)
    assert (nodes[1].read_bandwidth, nodes[1].write_bandwidth) == (50, 40)
    assert nodes[0].initiators == nodes[1].initiators == ()
    assert nodes[2].performance_source == ""


def test_figures_of_caches_are_not_those_of_the_memory() -> None:
    links = _links(
        _link("bandwidth", "0-0", 900, unit="MiB", cache="1"),
        _link("bandwidth", "0-0", 100, unit="MiB"),
        _link("bandwidth", "0-0", 800, unit="MiB", cache="1"),
    )
    assert _describe(links).nodes[0].read_bandwidth == 100


def test_link_to_a_cell_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TopologyError, match="<latency> has initiator 0 and target 5: expected ids"):
        _describe(_links(_link("latency", "0-5", 1)))


def test_memory_side_caches_come_by_level() -> None:
    cells = (
        "<cell cpus='0-1' memory='1'>"
        "<cache level='2' associativity='full'><size value='2' unit='GiB'/>"
        "<line value='128' unit='B'/></cache>"
        "<cache level='1' associativity='direct'><size value='10'/><line value='64' unit='B'/>"
        "</cache><cache level='3' associativity='none'/></cell><cell id='1' memory='1'/>"
    )
    told = "libvirt's <cache> on line 1"
    assert _describe("", cells=cells).nodes[0].side_caches == (
        SideCache(10 * 1024, 64, "direct", told),
        SideCache(2048 * MIB, 128, "indexed", told),
        SideCache(0, 0, "unknown", told),
    )
