"""The interface by which a strategy makes the team of a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod

from knltrain.exchange.transports.team import Team


class TeamFactory(ABC):
    """Makes the team of one worker, in the way that its strategy needs."""

    @abstractmethod
    def meeting_all(self) -> Team:
        """Make a team whose workers exchange all at once, in groups or not."""

    @abstractmethod
    def visiting(self) -> Team:
        """Make a team whose workers, or roots of groups, visit a center."""

    @abstractmethod
    def along_trees(self) -> Team:
        """Make a team whose workers exchange along trees, layer by layer."""
