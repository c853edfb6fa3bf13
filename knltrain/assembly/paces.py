"""Periods and moving rates of each worker, for methods whose workers come to the center alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from knltrain.config import RunConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.transports.team import Team


def check_paces(config: RunConfig, method: Method) -> None:
    """Refuse what the method or the number of workers does not fit: ConfigError."""
    chosen, workers = config.balance, config.total_workers
    periods, rates = chosen.periods, chosen.moving_rates
    asked: dict[str, object] = {} if periods == "equal" else {"balance.periods": periods}
    asked |= {} if rates is None else {"balance.moving_rates": rates}
    told = " and ".join(f"{key} = {_shown(value)}" for key, value in asked.items())
    if not method.comes_at_any_time or method.period is None or method.levels is not None:
        raise ConfigError(
            f"{told} with {method.name}: its workers exchange together, or in turn; expected a "
            "method whose workers come to the center alone, such as 'seasgd', 'easgd' or 'downpour'"
        )
    if rates is not None and "moving_rate" not in METHODS[method.name].reads:
        raise ConfigError(
            f"{told} with {method.name}, which has no moving rate: expected 'seasgd', 'easgd' or "
            "another elastic method"
        )
    if periods == "by_speed" and chosen.may_change:
        raise ConfigError(
            "balance.periods = 'by_speed' with shares that are fitted or replayed, by which all "
            "steps take as long: expected one of them"
        )
    for key, value in asked.items():
        if isinstance(value, tuple) and len(value) != workers:
            raise ConfigError(
                f"{key} = {_shown(value)}: expected a value for each of the {workers} workers; "
                f"these are {len(value)}"
            )


def with_own_pace(
    config: RunConfig, team: Team, label_shape: tuple[int, ...], threads: int, run_folder: Path
) -> RunConfig:
    """The configuration with a worker's own period and moving rate (collective "by_speed").

    Rank 0 writes the periods that were found to `periods.csv`, where a resumed run finds them.
    """
    chosen, exchange = config.balance, config.exchange
    own: dict[str, object] = {}
    if chosen.periods == "by_speed":
        own["communication_period"] = _by_speed(config, team, label_shape, threads, run_folder)
    elif chosen.periods != "equal":
        own["communication_period"] = chosen.periods[team.rank]
    if chosen.moving_rates is not None:
        own["moving_rate"] = chosen.moving_rates[team.rank]
    return config.model_copy(update={"exchange": exchange.model_copy(update=own)})


def _by_speed(
    config: RunConfig, team: Team, label_shape: tuple[int, ...], threads: int, run_folder: Path
) -> int:
    from knltrain.assembly.balancing import measured_costs
    from knltrain.balance.periods import PERIODS, periods_by_speed, read_periods, write_periods
    from knltrain.exchange.transports.team import of_all_workers

    path, workers, is_first = run_folder / PERIODS, team.workers, team.rank == 0
    known = read_periods(path, workers) if is_first and path.exists() else (0,) * workers
    own = int(of_all_workers(team, known)[0, team.rank])  # the folder may be rank 0's alone
    if own:
        return own
    costs = measured_costs(config, team, label_shape, threads)
    seconds = [cost.of(images) for cost, images in zip(costs, config.images_of_each, strict=True)]
    periods = periods_by_speed(seconds, config.exchange.communication_period)
    if is_first:
        write_periods(path, periods, seconds)
    return periods[team.rank]


def _shown(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else f"'{value}'"
