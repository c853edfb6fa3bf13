"""The trainings to compare, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knltrain.bench.nodes.ddp import Ddp
from knltrain.bench.nodes.ours import Ours
from knltrain.bench.nodes.star import Star
from knltrain.bench.nodes.training import Training
from knltrain.errors import ConfigError, unknown_name

SEASGD, STAR = "seasgd", Star.name

_ALONE, _DDP_ALONE = "sync_easgd3", "gloo"
_METHOD, _LAYERWISE, _TREES = "hierarchical_easgd", "layerwise_sgd", "caffegpi"


def trainings() -> Mapping[str, Training]:
    """All that can be compared, by name."""
    ours = Ours("one-host", _ALONE, None)
    ddp = Ddp(_DDP_ALONE, spread=False)
    spread: list[Training] = []
    for between in ("ccl", "gloo"):
        spread += [
            Ours(between, _METHOD, between, ours.name),
            Ours(f"{between}-bfloat16", _METHOD, between, ours.name, "bfloat16"),
            Ours(f"layerwise-{between}", _LAYERWISE, between, ours.name),
            Ddp(between, spread=True, of_one_host=ddp.name),
        ]
    spread.append(Ours("trees-mpi", _TREES, "mpi", ours.name))
    spread += [Ours(SEASGD, "seasgd", "mpi", ours.name), Star(ours.name)]
    return {each.name: each for each in (ours, ddp, *spread)}


def named(chosen: Sequence[str]) -> list[Training]:
    """Those of these names, or of ("all",); ConfigError where there are none."""
    known = trainings()
    names = list(known) if tuple(chosen) == ("all",) else list(dict.fromkeys(chosen))
    if not names:
        raise ConfigError(f"--trainings: expected some of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ConfigError(unknown_name("--trainings", name, known))
    return [known[name] for name in names]
