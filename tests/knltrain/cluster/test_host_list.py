from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.cluster.host_list import hosts_in, hosts_of
from knltrain.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login", ["login"]),
        ("a,b-2.cluster", ["a", "b-2.cluster"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("x,n[1-2],y[3]", ["x", "n1", "n2", "y3"]),
        ("r[1-2]n[03-04]", ["r1n03", "r1n04", "r2n03", "r2n04"]),
        ("r[1-2]-ib", ["r1-ib", "r2-ib"]),
    ],
)
def test_names_come_in_the_order_in_which_slurm_lists_them(text: str, hosts: list[str]) -> None:
    assert list(hosts_of(text)) == hosts


@pytest.mark.parametrize("text", ["n[1-3", "n1]", "n[a-b]", "n[]", "n[1-]"])
def test_what_is_no_list_is_refused_as_it_stands(text: str) -> None:
    with pytest.raises(ConfigError, match="is no list of hosts") as error:
        hosts_of(text)
    assert text in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "n[3-1]",
        "n[²]",
        "n[1-99999999999]",
        "[1]" * 2000,
        "n" + "," * 2**21,
        "n" * 4000 + "[1-99999]",
        "[1-99999]" + "n" * 4000,
    ],
    ids=lambda text: text[:12],
)
def test_what_slurm_never_writes_is_refused_in_a_few_words(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is no list of hosts: expected one such as") as error:
        hosts_of(text)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(("text", "name"), [("a b,c", "a b"), ("c,-oProxyCommand=x", "-oProxy")])
def test_what_ssh_would_take_for_something_else_is_no_name(text: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}.* is no name of a host: expected one without"):
        hosts_of(text)


@pytest.mark.parametrize("text", ["n[0-999999999]", "n[0-9999]a[0-9999]b[0-9999]"])
def test_more_hosts_than_there_can_be_are_not_counted_to_the_end(text: str) -> None:
    with pytest.raises(ConfigError, match="names more than 131072 hosts"):
        hosts_of(text)


def test_many_commas_take_no_longer_than_they_are_long() -> None:
    assert hosts_of("," * 100_000 + "n[1,2]") == ("n1", "n2")


def test_a_machine_file_has_hosts_in_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "machines"
    file.write_text("# of the cluster\nlogin\n\n  n[001-003,7]  # all of a rack\r\nlast")
    assert hosts_in(file) == ("login", "n001", "n002", "n003", "n7", "last")
    file.write_text("\ufefffirst\nfe80::1\n")
    assert hosts_in(file) == ("first", "fe80::1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\na\n", r"machines, line 3: 'a' is in line 1 already: expected each computer once"),
        (b"n[1-3]\nn2", r"machines, line 2: 'n2' is in line 1 already"),
        (b"a slots=4", r"machines, line 1: 'a slots=4' is more than a name; how many workers"),
        (b"a:4\n", r"machines, line 1: 'a:4' is more than a name; how many workers"),
        (b"a\nn[3-1]", r"machines, line 2: 'n\[3-1\]' is no list of hosts"),
        (b"# none\n\n", "machines names no host: expected one in each line"),
        (b"\xff\xfe", "machines: no machine file that can be read"),
    ],
    ids=["twice", "twice in a list", "slots", "slots of hydra", "backwards", "empty", "bytes"],
)
def test_machine_files_with_mistakes_are_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "machines"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        hosts_in(file)
