"""A small network with every kind of layer."""

from ..branched_network import branched as branched
