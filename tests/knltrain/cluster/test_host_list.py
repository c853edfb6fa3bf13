from __future__ import annotations

import pytest

from knltrain.cluster.host_list import hosts_of
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
