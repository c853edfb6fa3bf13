"""Two profiles side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from affinity.cli.layout import table
from knltrain.errors import ConfigError

_SAME: Final = (
    *("processor", "knltrain", "backend", "implementation", "threads_per_worker", "workers"),
    *("nodes", "between_nodes", "method", "communication_period", "wire_format"),
)
"""Facts in which profiles may differ, which is said."""


_OF_IMAGES: Final = ("batch", "gradient", "around stages")
"""Parts of a step that grow with its images, as all stages do."""


def compared(here: Mapping[str, Any], there: Mapping[str, Any], most: int | None = None) -> str:
    """Times of stages and parts here and there, with their ratio.

    What grows with the images of a step is scaled to as many. The `most` stages are those with the
    largest difference. Raises ConfigError for profiles of different networks.
    """
    names = [each["network"]["name"] for each in (here, there)]
    if names[0] != names[1]:
        raise ConfigError(
            f"a profile of {names[0]} and one of {names[1]}: expected two of one network; "
            "`knltrain bench cnn` sets networks side by side"
        )
    images = [float(each["batch_per_worker"] * each["batches_per_step"]) for each in (here, there)]
    scale = images[0] / images[1]
    rows = [("step", "", *_times(_step(here), _step(there)))]
    rows += [
        ("", name, *_times(own, other * (scale if name in _OF_IMAGES else 1)))
        for name, own, other in _both(_parts_of(here), _parts_of(there))
    ]
    stages = _both(_stages_of(here), _stages_of(there))
    ranked = sorted(stages, key=lambda each: -abs(each[1] - scale * each[2]))
    rows += [(*name, *_times(own, scale * other)) for name, own, other in ranked[:most]]
    notes = list(_notes(here, there, scale))
    return "\n".join([*notes, table(("stage", "part", "ms", "other ms", "ratio"), rows, (2, 3, 4))])


def _step(document: Mapping[str, Any]) -> float:
    return float(document["step_seconds"]["mean"])


def _parts_of(document: Mapping[str, Any]) -> dict[Any, float]:
    return {each["name"]: each["seconds"] for each in document["parts"]}


def _stages_of(document: Mapping[str, Any]) -> dict[Any, float]:
    return {
        (each["name"], each["direction"].replace("_", "-")): each["seconds"]["mean"]
        for each in document["stages"]
    }


def _both(here: Mapping[Any, float], there: Mapping[Any, float]) -> list[tuple[Any, float, float]]:
    names = dict.fromkeys([*here, *there])
    return [(name, here.get(name, 0.0), there.get(name, 0.0)) for name in names]


def _times(here: float, there: float) -> tuple[str, str, str]:
    ratio = f"{here / there:.3f}" if here and there else ""
    return f"{1e3 * here:.3f}", f"{1e3 * there:.3f}", ratio


def _notes(here: Mapping[str, Any], there: Mapping[str, Any], scale: float) -> Iterator[str]:
    for name in _SAME:
        own, other = here.get(name), there.get(name)
        if own != other:
            what = name.replace("_", " ")
            yield f"note: another {what}: {own} here, {other} there; all ratios have that in them"
    if scale != 1:
        yield f"note: stages and batches of the other one are scaled to {scale:g} times its images"
    noise = [each["overhead"]["aa_noise_share"] for each in (here, there)]
    if None not in noise:
        yield f"note: even and odd steps differ by {100 * max(noise):.1f} %: the noise of ratios"
