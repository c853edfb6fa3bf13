"""Two profiles side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from affinity.cli.layout import table
from knltrain.errors import ConfigError

_ANEW: Final = "profile both on one machine to compare times; shares of bounds compare machines"
_BY_ONE: Final = "profile both by the same versions, or take the difference for theirs"
_BY_SET: Final = "profile one of them anew with --set, or take the difference for that"

_SAME: Final = {
    **dict.fromkeys(("processor", "threads_per_worker"), _ANEW),
    **dict.fromkeys(("knltrain", "torch", "numba"), _BY_ONE),
    **dict.fromkeys(
        (
            *("backend", "implementation", "engine", "precision", "layout", "workers", "nodes"),
            *("between_nodes", "method", "communication_period", "wire_format"),
        ),
        _BY_SET,
    ),
}
"""Facts in which profiles may differ, which is said with the way out."""


_OF_IMAGES: Final = ("batch", "gradient", "around stages")
"""Parts of a step that grow with its images, as all stages do."""


class Side(NamedTuple):
    """What is compared of a profile."""

    network: str
    images: float
    step: float
    parts: dict[Any, float]
    stages: dict[Any, float]
    facts: dict[str, Any]
    noise: float | None


def side_of(document: Mapping[str, Any]) -> Side:
    """What is compared of a document; errors of `reading.whole` for a damaged one."""
    versions = document.get("versions", {})
    images = document["batch_per_worker"] * document["batches_per_step"]
    noise = document["overhead"]["aa_noise_share"]
    if not 0 < images < math.inf:
        raise ValueError(f"batch_per_worker times batches_per_step {images}")
    return Side(
        document["network"]["name"],
        float(images),
        float(document["step_seconds"]["mean"]),
        {each["name"]: float(each["seconds"]) for each in document["parts"]},
        {
            (each["name"], each["direction"].replace("_", "-")): float(each["seconds"]["mean"])
            for each in document["stages"]
        },
        {name: versions.get(name, document.get(name)) for name in _SAME},
        None if noise is None else float(noise),
    )


def compared(here: Side, there: Side, most: int | None = None) -> str:
    """Times of stages and parts here and there, with their ratio.

    What grows with the images of a step is scaled to as many. The `most` stages are those with the
    largest difference. Raises ConfigError for profiles of different networks.
    """
    if here.network != there.network:
        raise ConfigError(
            f"a profile of {here.network} and one of {there.network}: expected two of one network; "
            "`knltrain bench cnn` sets networks side by side"
        )
    scale = here.images / there.images
    rows = [("step", "", *_times(here.step, there.step))]
    rows += [
        ("", name, *_times(own, other, scale if name in _OF_IMAGES else 1.0))
        for name, own, other in _both(here.parts, there.parts)
    ]
    stages = _both(here.stages, there.stages)
    ranked = sorted(stages, key=lambda each: -abs((each[1] or 0.0) - scale * (each[2] or 0.0)))
    rows += [(*name, *_times(own, other, scale)) for name, own, other in ranked[:most]]
    notes = list(_notes(here, there, scale))
    return "\n".join([*notes, table(("stage", "part", "ms", "other ms", "ratio"), rows, (2, 3, 4))])


def _both(
    here: Mapping[Any, float], there: Mapping[Any, float]
) -> list[tuple[Any, float | None, float | None]]:
    """By name; None for what one of them does not have."""
    names = dict.fromkeys([*here, *there])
    return [(name, here.get(name), there.get(name)) for name in names]


def _times(here: float | None, there: float | None, scale: float = 1.0) -> tuple[str, str, str]:
    other = None if there is None else scale * there
    ratio = f"{here / other:.3f}" if here and other else ""
    return _milliseconds(here), _milliseconds(other), ratio


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3f}"


def _notes(here: Side, there: Side, scale: float) -> Iterator[str]:
    for name, way_out in _SAME.items():
        own, other = (_told(side.facts[name]) for side in (here, there))
        if own != other:
            what = name.replace("_", " ")
            yield f"note: another {what}: {own} here, {other} there; {way_out}"
    if scale != 1:
        yield f"note: stages and batches of the other one are scaled to {scale:g} times its images"
    noise = [each.noise for each in (here, there) if each.noise is not None]
    if len(noise) == 2:
        yield f"note: even and odd steps differ by {100 * max(noise):.1f} %: the noise of ratios"


def _told(fact: Any) -> str:
    return "unknown" if fact is None else str(fact)
