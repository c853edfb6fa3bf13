"""Sizes as users write them, and what fits into memory."""

import pytest

from knltrain.bench.exchange.sizes import (
    fitting,
    format_size,
    parse_size,
    parse_sizes,
)
from knltrain.errors import ConfigError


def test_sizes_are_read_in_powers_of_1024_and_of_1000_each_once_and_in_order():
    assert parse_sizes("64K, 28MB,4096,4KiB,1g,8B") == [8, 4096, 65536, 28_000_000, 2**30]
    assert parse_sizes("4kb,4k") == [4000, 4096]


@pytest.mark.parametrize("word", ["0", "6", "4T", "-4K", "K", "1.5M", "4 K", "8iB"])
def test_a_size_of_no_whole_number_of_floats_is_refused(word):
    with pytest.raises(ConfigError, match=f"'{word}' is no size of a vector"):
        parse_sizes(f"4K,{word}")


@pytest.mark.parametrize("text", ["", "4K,8K"])
def test_one_size_is_one(text):
    assert parse_size("28MB") == 28_000_000
    with pytest.raises(ConfigError, match=f"--size: '{text}' is no size of a vector"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", " , "])
def test_no_size_at_all_is_refused(text):
    with pytest.raises(ConfigError, match="--sizes is empty"):
        parse_sizes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(8, "8 B"), (4096, "4 KiB"), (28_000_000, "28 MB"), (4000, "4 KB"), (2**29, "512 MiB")],
)
def test_sizes_are_written_as_they_are_read(size, text):
    assert format_size(size) == text
    assert parse_sizes(text.replace(" ", "")) == [size]


def test_sizes_that_need_too_much_are_left_out_with_the_reason():
    fit, left_out = fitting([2**20, 2**30], vectors=10, fixed_bytes=2**20, free=2**31)
    assert fit == [2**20]
    assert left_out == {
        2**30: "the contestants need 10.0 GiB of memory at once, of 2.0 GiB that are free"
    }
