"""Collective operations between processes of one node, through memory that they share.

A group of P ranks has one segment: a word of progress for each rank and a slot that only this rank
writes. An operation is a row of steps. In a step a rank copies or reduces what the others published
in the step before, writes what they need next, publishes that it has, and meets the others.
"""

from knltrain.communication.collectives.group import Group
from knltrain.communication.collectives.operations import Collectives
from knltrain.communication.collectives.point_to_point import PointToPoint
from knltrain.communication.collectives.segment import GroupSegment

__all__ = ["Collectives", "Group", "GroupSegment", "PointToPoint"]
