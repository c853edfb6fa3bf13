"""The seconds of an all-reduce by bytes and ranks: of a formula, or of a measured table."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from knltrain.cost_model.line import Link
from knltrain.cost_model.measured import MeasuredTimes
from knltrain.cost_model.predicted import EXCHANGES
from knltrain.cost_model.published import KNL_ALL_REDUCE
from knltrain.errors import ConfigError, unknown_name

AllReduce: TypeAlias = Callable[[float, int], float]
"""From bytes and ranks to seconds."""

FORMULAS: Final = {
    name.replace(" ", "-"): EXCHANGES[name]
    for name in ("ring", "recursive doubling", "halving and doubling", "tree")
}
KNL: Final = "knl-omni-path"
"""The measured table of DeepBench."""

_HEAD: Final = ("bytes", "ranks", "seconds")


def all_reduce_named(name: str, link: Link) -> AllReduce:
    """Return the all-reduce of a formula over a link, of `KNL`, or of a CSV file of this name.

    The file has the columns bytes, ranks and seconds, for `MeasuredTimes`. ConfigError for an
    unknown name, and for other files.
    """
    if name in FORMULAS:
        return partial(FORMULAS[name], link)
    if name == KNL:
        return _measured(KNL_ALL_REDUCE)
    file = Path(name).expanduser()
    if not file.exists():
        known = unknown_name("--all-reduce", name, [*FORMULAS, KNL])
        raise ConfigError(f"{known}; or a CSV file of times")
    try:
        return _measured(_read(file))
    except (OSError, ValueError, TypeError, KeyError, csv.Error, ConfigError) as error:
        raise ConfigError(
            f"--all-reduce {file}: expected a CSV file with the columns {','.join(_HEAD)}, and a "
            f"time above 0 for each pair of two sizes and two numbers of ranks or more ({error})"
        ) from None


def _measured(seconds: Mapping[tuple[int, int], float]) -> AllReduce:
    times = MeasuredTimes(seconds)
    return lambda size, ranks: 0.0 if ranks == 1 else times.seconds(size, ranks)


def _read(file: Path) -> dict[tuple[int, int], float]:
    found = dict[tuple[int, int], float]()
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        for row in rows:
            size, ranks, seconds = (row[name] or "" for name in _HEAD)
            where = f"line {rows.line_num}: {size},{ranks},{seconds}"
            try:
                pair, time = (int(size), int(ranks)), float(seconds)
            except ValueError:
                pair, time = (0, 0), 0.0
            if min(pair) < 1 or not 0 < time < math.inf:
                raise ValueError(f"{where}: expected finite numbers above 0")
            if pair in found:
                raise ValueError(f"{where}: this pair has a time already, {found[pair]:g}")
            found[pair] = time
    return found
