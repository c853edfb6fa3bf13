"""The base of strategies whose workers are one MPI job, and whose rank 0 takes the step for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.overlapped import check_gradients
from knltrain.exchange.strategies.strategy import MasterStep, Strategy
from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.config import RunConfig
    from knltrain.exchange.transports.job_team import JobTeam
    from knltrain.exchange.transports.team import TeamFactory

Own = TypeVar("Own", bound="OneJobStrategy")


class OneJobStrategy(Strategy):
    """Gradients come to rank 0, which takes the step by ``step``, and weights from it."""

    emulates_links = False
    steps_at_master = True
    is_one_mpi_job = True

    _weights: FloatArray
    _gradient: FloatArray

    def __init__(self, method: Method, team: JobTeam, step: MasterStep) -> None:
        self.method = method
        self.team = self._team = team
        self._take = step

    @classmethod
    def of(cls: type[Own], method: Method, team: Team, step: MasterStep) -> Own:
        """Make the strategy of a worker of the job."""
        from knltrain.exchange.transports.job_team import JobTeam

        assert isinstance(team, JobTeam)
        return cls(method, team, step)

    @classmethod
    def join(cls, teams: TeamFactory, *, comes_alone: bool) -> Team:  # noqa: ARG003
        """Join the team: all workers are ranks of one MPI job."""
        return teams.in_one_job()

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse what is not the gradient of all."""
        check_gradients(method)

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Refuse another form of what is sent."""
        if (chosen := config.exchange.wire_format) != "float32":
            raise ConfigError(
                f"exchange.wire_format = '{chosen}': '{method.name}' sends gradients and weights "
                "from memory to memory, in float32: expected 'float32'"
            )

    @classmethod
    def sent_bytes(
        cls,
        method: Method,  # noqa: ARG003
        exchanged: int,  # noqa: ARG003
        read: int | None = None,  # noqa: ARG003
    ) -> int | None:
        """Return None: the number depends on the worker's rank."""
        return None

    @property
    def parameters(self) -> FloatArray:
        """The weights that have arrived."""
        return self._weights

    @property
    def gradient(self) -> FloatArray:
        """This worker's gradient; sums with those of others take its place once it is sent."""
        return self._gradient

    @property
    def model(self) -> FloatArray:
        """The weights, the same at all workers."""
        return self.parameters

    def stepped(self, step: int) -> None:
        """Do nothing: rank 0 takes the step."""

    def state(self) -> dict[str, FloatArray]:
        """Return nothing: between two steps the weights are the whole state."""
        return {}
