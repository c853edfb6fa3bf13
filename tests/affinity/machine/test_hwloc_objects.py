from __future__ import annotations

import pytest

from affinity.errors import TopologyError
from affinity.machine.hwloc_objects import HwlocObject, all_members, members, read_objects
from affinity.machine.xml_tree import XmlElement, parse_xml


def _objects(text: str) -> list[HwlocObject]:
    return read_objects(parse_xml(text, "m.xml"))


def _set(text: str) -> XmlElement:
    return XmlElement("object", {"cpuset": text}, "m.xml", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x0", ()),
        ("0x00000005", (0, 2)),
        ("0x00000001,0x80000000", (31, 32)),
        ("0x00000003,,0x00000001", (0, 64, 65)),
        ("0x00000001,,,,,,0x0", (192,)),
        ("0x1,0x1", (0, 32)),
    ],
)
def test_sets_are_words_of_32_bits_with_zeros_left_out(
    text: str, expected: tuple[int, ...]
) -> None:
    assert all_members(_set(text), "cpuset") == expected
    assert members(_set(text), "cpuset", range(200)) == expected


def test_sets_without_an_end_hold_all_that_is_known_beyond_their_words() -> None:
    assert members(_set("0xf...f"), "cpuset", (0, 500)) == (0, 500)
    assert members(_set("0xf...f,0x00000001"), "cpuset", (0, 1, 31, 32, 500)) == (0, 32, 500)
    assert all_members(_set("0xf...f,0x00000001"), "cpuset") == (0,)


@pytest.mark.parametrize("text", ["0-3", "0x123456789", "0xg", "0x1 0x2", "-0x1"])
def test_set_in_another_notation_is_an_error_with_its_line(text: str) -> None:
    with pytest.raises(TopologyError, match=r"m\.xml, line 3: <object> has cpuset=.*0x0000000f"):
        all_members(_set(text), "cpuset")


def test_cpus_of_an_object_are_the_threads_in_it_or_its_set_if_it_is_memory(hwloc) -> None:
    text = hwloc.topology(
        hwloc.object("Package", hwloc.node(0, [0, 1, 9]), hwloc.core(4, 0, 1), os_index=2)
    )
    by_type = {item.type: item for item in _objects(text)}
    assert by_type["Machine"].cpus == (0, 1)
    assert by_type["Package"].cpus == (0, 1)
    assert by_type["NUMANode"].cpus == (0, 1)  # 9 is no thread of this machine
    assert by_type["PU"].within("Package") is by_type["Package"]
    assert by_type["PU"].within("Die") is None


def test_older_names_of_types_are_understood(hwloc) -> None:
    cache = hwloc.object("Cache", hwloc.core(0, 0), depth=3, infos={"Type": "MemorySideCache"})
    objects = _objects(hwloc.topology(hwloc.object("Socket", cache, os_index=0)))
    assert [item.type for item in objects] == ["Machine", "Package", "Cache", "Core", "PU"]
    assert objects[2].subtype == "MemorySideCache"
    assert objects[2].is_side_cache


def test_index_that_hwloc_does_not_know_is_none(hwloc) -> None:
    package = hwloc.object("Package", hwloc.core(0, 0), os_index=2**32 - 1)
    assert _objects(hwloc.topology(package))[1].os_index is None


def test_number_of_an_object_may_be_called_id(hwloc) -> None:
    objects = _objects(hwloc.topology(hwloc.object("Group", hwloc.core(0, 0), id="obj17")))
    assert objects[1].number == "17"


def test_machine_without_threads_is_an_error_that_says_how_to_write_it(hwloc) -> None:
    with pytest.raises(
        TopologyError, match=r"m\.xml tells of no hardware threads.*lstopo --of xml"
    ):
        _objects(hwloc.topology(hwloc.object("Package", os_index=0)))
    with pytest.raises(TopologyError, match="no hardware threads"):
        _objects("<topology/>")


def test_cpu_that_is_there_twice_is_an_error(hwloc) -> None:
    with pytest.raises(TopologyError, match=r"m\.xml has cpu 5 2 times"):
        _objects(hwloc.topology(hwloc.core(0, 5), hwloc.core(1, 5, 6)))


def test_thread_without_a_number_is_an_error_with_its_line(hwloc) -> None:
    with pytest.raises(TopologyError, match=r"line \d+: <object> has no os_index"):
        _objects(hwloc.topology(hwloc.object("PU")))


def test_two_machines_in_one_file_are_an_error_with_the_line_of_the_second(hwloc) -> None:
    text = hwloc.topology(hwloc.core(0, 0), after=hwloc.object("Machine", hwloc.core(0, 1)))
    with pytest.raises(TopologyError, match="line 7: <object> has another machine before it"):
        _objects(text)


def test_machines_of_a_cluster_in_one_file_are_named(hwloc) -> None:
    machines = [
        hwloc.object("Machine", hwloc.core(0, 0), os_index=n, infos={"HostName": name})
        for n, name in enumerate(("cat", "dog"))
    ]
    system = hwloc.object("System", *machines)
    text = f'<topology version="1">{system}</topology>'
    with pytest.raises(TopologyError, match=r"describes 2 machines \(cat, dog\): .*one of them"):
        read_objects(parse_xml(text, "cluster.xml"))
