"""Caffe's binary files, as tests write them; the real ones are beside the repository."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

REAL = Path(__file__).parents[4].parent / "shared/data/caffe"


def real(name: str) -> Path:
    """A file that Caffe has written; skips the test where there is none."""
    if not (REAL / name).exists():
        pytest.skip(f"{REAL} has no {name}")
    return REAL / name


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(shape: Sequence[int], values: Sequence[float], *, legacy: bool = False) -> bytes:
    data = field(5, struct.pack(f"<{len(values)}f", *values))
    if legacy:
        return b"".join(field(number, size) for number, size in enumerate(shape, 1)) + data
    return field(7, field(1, b"".join(map(varint, shape)))) + data


def layer(name: str, *blobs: bytes) -> bytes:
    inner = field(1, name.encode()) + field(2, b"Convolution")
    return field(100, inner + b"".join(field(7, each) for each in blobs))


def v1_layer(name: str, *blobs: bytes) -> bytes:
    inner = field(2, b"data") + field(4, name.encode()) + field(5, 4)
    return field(2, inner + b"".join(field(6, each) for each in blobs))


def v0_layer(name: str, *blobs: bytes) -> bytes:
    inner = field(1, name.encode()) + field(2, b"conv")
    return field(2, field(1, inner + b"".join(field(50, each) for each in blobs)))
