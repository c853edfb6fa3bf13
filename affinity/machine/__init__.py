"""Reading a machine: from its files, or from what another program wrote, to a `Topology`."""
