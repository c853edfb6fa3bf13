from __future__ import annotations

from dataclasses import replace

import pytest

from affinity.cli.phrases import (
    format_rate,
    kind_word,
    machine_name,
    memory_names,
    parse_bytes,
)
from affinity.errors import AffinityError
from affinity.topology import Topology


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("4096", 4096),
        ("3k", 3072),
        ("512MiB", 536870912),
        ("1.5 G", 1610612736),
        ("2GB", 2147483648),
        ("1T", 1099511627776),
    ],
)
def test_sizes_are_read_in_powers_of_1024(text: str, number: int) -> None:
    assert parse_bytes(text) == number


@pytest.mark.parametrize("text", ["", "G", "-1", "1P", "1 000", "3 GiBs", "1e3"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(AffinityError) as caught:
        parse_bytes(text)
    assert str(caught.value) == (
        f"bad size {text!r}: expected a number with or without K, M, G or T, as in 1.5G"
    )


def test_rates_are_written_as_short_as_they_are_exact() -> None:
    assert [format_rate(rate) for rate in (90000, 22500, 716800)] == [
        "90 GB/s",
        "22.5 GB/s",
        "716.8 GB/s",
    ]


def test_hbm_of_a_xeon_phi_is_called_mcdram(knights_landing: Topology, xeon_max: Topology) -> None:
    assert memory_names(knights_landing, [7, 0]) == ["MCDRAM 7", "DRAM 0"]
    assert memory_names(xeon_max, [2, 0]) == ["HBM 2", "DRAM 0"]
    assert kind_word(xeon_max, "unknown") == "unknown"


def test_machine_without_a_processor_name_is_said_to_have_none(xeon_max: Topology) -> None:
    assert machine_name(xeon_max) == "Intel(R) Xeon(R) CPU Max 9470C"
    assert machine_name(replace(xeon_max, model="unknown")) == "processor not told"
