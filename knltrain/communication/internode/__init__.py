"""Collective operations between nodes: one process of each node takes part."""
