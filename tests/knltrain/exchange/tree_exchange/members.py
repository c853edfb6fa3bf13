"""Members of a tree that a test moves by hand, one step of one rank at a time."""

from __future__ import annotations

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.exchange.tree_exchange.edges import Edges
from knltrain.exchange.tree_exchange.member import Member
from knltrain.exchange.tree_exchange.schedule import Schedule
from knltrain.exchange.tree_exchange.trees import Branches

from ...communication.gaspi.conftest import together


class Members:
    """A member at each rank."""

    def __init__(self, ranks: int, schedule: Schedule, slots: int = 2, branches: int = 2) -> None:
        self.spaces = [AddressSpace(each, timeout_seconds=10) for each in thread_ranks(ranks)]
        trees = Branches(None, branches)
        self.members = together(
            self.spaces,
            lambda space: Member(space, Edges(schedule, slots, trees, space.rank, ranks)),
        )

    def step(self, part) -> bool:
        """Do one step of a member's part, and all that it posts, before anything else."""
        member = part._member
        member.counts.look()
        moved = part.step()
        for queue in range(member.space.queues):
            member.space.wait(queue)
        return moved

    def settle(self, *parts) -> None:
        """Step all, in turn, until none of them does anything."""
        moved = True
        while moved:
            moved = sum(self.step(part) for part in parts) > 0

    def close(self) -> None:
        together(self.spaces, lambda space: space.close())
