"""Collective operations between processes of one node, through memory that they share.

A group of P ranks has one segment. Each rank has in it a word for its progress, and a slot that
only this rank writes. An operation is a sequence of steps. In a step a rank

1. copies or reduces what the others wrote in the step before,
2. writes to its slot what they need next,
3. publishes its progress, and waits for the others at a barrier.
"""

from knltrain.communication.collectives.group import Group
from knltrain.communication.collectives.operations import Collectives
from knltrain.communication.collectives.point_to_point import PointToPoint
from knltrain.communication.collectives.segment import GroupSegment

__all__ = ["Collectives", "Group", "GroupSegment", "PointToPoint"]
