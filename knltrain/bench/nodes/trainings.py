"""The trainings to compare, by name."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence

from knltrain.bench.nodes.ddp import Ddp
from knltrain.bench.nodes.ours import KnltrainTraining
from knltrain.bench.nodes.training import Training
from knltrain.communication.mpi.runtime import INSTALL
from knltrain.communication.oneccl.library import MISSING, installed
from knltrain.errors import ConfigError, unknown_name

SEASGD, STAR = "seasgd", "star"

_ALONE, _DDP_ALONE = "sync_easgd3", "gloo"
_METHOD, _LAYERWISE, _TREES = "hierarchical_easgd", "layerwise_sgd", "caffegpi"


def trainings() -> Mapping[str, Training]:
    """All that can be compared, by name."""
    ours = KnltrainTraining("one-host", _ALONE, None)
    ddp = Ddp(_DDP_ALONE, spread=False)
    spread: list[Training] = []
    for between in ("ccl", "gloo"):
        spread += [
            KnltrainTraining(between, _METHOD, between, ours.name),
            KnltrainTraining(f"{between}-bfloat16", _METHOD, between, ours.name, "bfloat16"),
            KnltrainTraining(f"layerwise-{between}", _LAYERWISE, between, ours.name),
            Ddp(between, spread=True, of_one_host=ddp.name),
        ]
    spread.append(KnltrainTraining("trees-mpi", _TREES, "mpi", ours.name))
    spread += [
        KnltrainTraining(name, method, "mpi", ours.name)
        for name, method in ((SEASGD, "seasgd"), (STAR, "caffe_mpi"))
    ]
    return {each.name: each for each in (ours, ddp, *spread)}


def named(chosen: Sequence[str]) -> list[Training]:
    """The trainings of these names or, for ("all",), those whose requirements are installed.

    Raises ConfigError where there are none, and for one that lacks something.
    """
    known = trainings()
    if tuple(chosen) == ("all",):
        return [each for each in known.values() if _lack(each) is None]
    found = []
    for name in dict.fromkeys(chosen):
        if name not in known:
            raise ConfigError(unknown_name("--trainings", name, known))
        lack = _lack(known[name])
        if lack is not None:
            raise ConfigError(f"--trainings: '{name}': {lack}")
        found.append(known[name])
    if not found:
        raise ConfigError(f"--trainings: expected some of {', '.join(known)}")
    return found


def _lack(training: Training) -> str | None:
    """What a training needs that is not installed, with the remedy; None if nothing."""
    if training.by == "ccl" and installed() is None:
        return MISSING
    if training.by == "mpi" and importlib.util.find_spec("mpi4py") is None:
        return f"no mpi4py; {INSTALL}"
    return None
