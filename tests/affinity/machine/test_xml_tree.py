from __future__ import annotations

import pytest

from affinity.errors import TopologyError
from affinity.machine.xml_tree import DEEPEST, parse_xml


def test_elements_keep_attributes_text_order_and_line() -> None:
    root = parse_xml('<a>\n<b n="7">x<c/>y</b>\n<b n="8"/>\n</a>', "m.xml")
    assert [(child.tag, child.number("n"), child.line) for child in root.children] == [
        ("b", 7, 2),
        ("b", 8, 3),
    ]
    assert root.children[0].text == "xy"
    assert root.at("b", "c") is root.children[0].children[0]
    assert root.at("b", "d") is None
    assert [child.line for child in root.tagged("b")] == [2, 3]


def test_attribute_that_is_missing_has_no_number_and_the_default_text() -> None:
    root = parse_xml("<a/>", "m.xml")
    assert root.number("n") is None
    assert root.get("n", "none") == "none"


@pytest.mark.parametrize("value", ["seven", "-1", "1.5", "", "٣", "9" * 5000])
def test_attribute_that_is_no_number_is_named_with_file_and_line(value: str) -> None:
    root = parse_xml(f'<a>\n<b size="{value}"/>\n</a>', "m.xml")
    with pytest.raises(TopologyError, match=r"m\.xml, line 2: <b> has size=.* whole number"):
        root.children[0].number("size")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("<a>\n  <b>\n", "line 3, column 1"),
        ("<a>\n<b></c></a>", "line 2, column 6"),
        ('<a b="1" b="2"/>', "line 1, column 10"),
        ("", "line 1, column 1"),
        ("node 0 cpus: 1", "line 1, column 1"),
    ],
)
def test_damage_is_told_with_line_and_column(text: str, place: str) -> None:
    with pytest.raises(TopologyError, match=f"m.xml is damaged at {place}: .*copy it again"):
        parse_xml(text, "m.xml")


def test_text_with_half_characters_is_refused_without_a_crash() -> None:
    with pytest.raises(TopologyError, match=r"m\.xml holds bytes that are no text"):
        parse_xml("<a b='\udcff'/>", "m.xml")


def test_entities_that_grow_without_bound_are_refused() -> None:
    nested = "".join(f'<!ENTITY x{i} "{f"&x{i - 1};" * 10}">' for i in range(1, 12))
    text = f'<!DOCTYPE a [<!ENTITY x0 "boom">{nested}]><a>&x11;</a>'
    with pytest.raises(TopologyError, match=r"m\.xml, line 1: the XML declares an entity, 'x0'"):
        parse_xml(text, "m.xml")


def test_entity_that_names_a_file_is_refused() -> None:
    text = '<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/hostname">]><a>&f;</a>'
    with pytest.raises(TopologyError, match="declares an entity, 'f'"):
        parse_xml(text, "m.xml")


def test_document_type_of_another_file_is_not_fetched() -> None:
    text = '<!DOCTYPE topology SYSTEM "/no/such/hwloc2.dtd"><topology>&other;</topology>'
    assert parse_xml(text, "m.xml").text == ""


def test_nesting_deeper_than_any_machine_is_refused() -> None:
    allowed = "<a>" * DEEPEST + "</a>" * DEEPEST
    assert parse_xml(allowed, "m.xml").tag == "a"
    with pytest.raises(TopologyError, match=rf"m\.xml, line 1: <a> has more than {DEEPEST}"):
        parse_xml(f"<a>{allowed}</a>", "m.xml")


def test_more_after_the_end_is_called_that_and_no_damage() -> None:
    with pytest.raises(TopologyError, match=r"m.xml goes on after its XML has ended, at line 2"):
        parse_xml("<topology/>\n<topology/>", "m.xml")
