"""Reads a machine from its files, or from another program's output, into a `Topology`."""
