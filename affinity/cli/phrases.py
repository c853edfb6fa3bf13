"""Formats and parses sizes, rates and memories."""

from __future__ import annotations

import re
from collections.abc import Iterable

from affinity.errors import AffinityError
from affinity.topology import Topology

_KIND_WORDS = {"dram": "DRAM", "hbm": "HBM", "cxl": "CXL", "pmem": "PMEM", "gpu": "GPU"}
_POWER_OF = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE = r"(\d{1,18}(?:\.\d{1,18})?) ?([KMGT]?)(?:I?B)?"


def parse_bytes(text: str) -> int:
    """Read ``"1.5G"``, ``"512MiB"`` or ``"4096"``; units are powers of 1024.

    Raises AffinityError if the text is something else.
    """
    match = re.fullmatch(_SIZE, text.strip().upper(), re.ASCII)
    if match is None:
        raise AffinityError(
            f"bad size {text!r}: expected a number with or without K, M, G or T, as in 1.5G"
        )
    number, unit = match.groups()
    return int(float(number) * 1024 ** _POWER_OF[unit])


def format_rate(megabytes_per_second: int) -> str:
    """Write a bandwidth given in MB/s: ``"90 GB/s"``, ``"22.5 GB/s"``."""
    return f"{megabytes_per_second / 1000:.4g} GB/s"


def machine_name(topology: Topology) -> str:
    """The name of its processors, if it is known."""
    return "processor not told" if topology.model == "unknown" else topology.model


def kind_word(topology: Topology, kind: str) -> str:
    """The usual name of a memory kind; the HBM of a Xeon Phi is called MCDRAM."""
    if kind == "hbm" and "Xeon Phi" in topology.model:
        return "MCDRAM"
    return _KIND_WORDS.get(kind, kind)


def memory_names(topology: Topology, nodes: Iterable[int]) -> list[str]:
    """Memories by kind and node: ``["HBM 4", "DRAM 0"]``."""
    return [f"{kind_word(topology, topology.node(node).kind)} {node}" for node in nodes]
