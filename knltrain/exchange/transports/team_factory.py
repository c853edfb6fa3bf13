"""The ways in which a worker becomes one of its run's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from knltrain.exchange.transports.team import Team


class TeamFactory(ABC):
    """Makes one worker's team, in the way that the strategy of its method asks for."""

    @abstractmethod
    def meeting_all(self) -> Team:
        """Workers that exchange all at once, in groups or not."""

    @abstractmethod
    def visiting(self) -> Team:
        """Workers, or roots of groups, that come to a center alone."""

    @abstractmethod
    def along_trees(self) -> Team:
        """Workers whose vectors go along trees, layer by layer."""
