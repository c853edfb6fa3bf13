"""Colours of the pictures: one for each worker, and fixed ones for memories and for other uses."""

from __future__ import annotations

import colorsys

from affinity.cli.roles import Role, Use

INK = "#1f2937"
PAPER = "#ffffff"
GROUND = "#f8fafc"
LINE = "#94a3b8"
CORE = "#cbd5e1"
TAKEN = "#9ca3af"

MEMORY = {
    "dram": ("#eff6ff", "#3b82f6"),
    "hbm": ("#fdf4ff", "#a21caf"),
    "cxl": ("#f0fdf4", "#16a34a"),
    "pmem": ("#fefce8", "#a16207"),
    "gpu": ("#f0fdfa", "#0d9488"),
}
"""Ground and edge of a memory of each kind."""

UNKNOWN_MEMORY = ("#f9fafb", "#6b7280")

_USES: dict[Use, str] = {"system": "#4b5563", "idle": PAPER, "forbidden": "#e5e7eb"}
_FIRST = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#edc948", "#9c755f")
_GOLDEN_ANGLE = 0.381966


def worker_colour(rank: int) -> str:
    """The colour of a worker: eight distinct ones, then hues far from those before."""
    if rank < len(_FIRST):
        return _FIRST[rank]
    lightness = (0.45, 0.6, 0.72)[rank % 3]
    return _hex(colorsys.hls_to_rgb(rank * _GOLDEN_ANGLE % 1, lightness, 0.55))


def role_colour(role: Role) -> str:
    """The colour of a core; cores that help a worker have a light shade of its colour."""
    if role.rank is None:
        return _USES.get(role.use, PAPER)
    colour = worker_colour(role.rank)
    return colour if role.use == "compute" else _mixed(colour, PAPER, 0.65)


def darker(colour: str) -> str:
    """A darker shade of the colour."""
    return _mixed(colour, "#000000", 0.3)


def ink_on(colour: str) -> str:
    """Dark or light letters, whichever are readable on this colour."""
    red, green, blue = _rgb(colour)
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else PAPER


def _mixed(colour: str, other: str, share: float) -> str:
    pairs = zip(_rgb(colour), _rgb(other), strict=True)
    red, green, blue = ((1 - share) * a + share * b for a, b in pairs)
    return _hex((red, green, blue))


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _hex(rgb: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)
