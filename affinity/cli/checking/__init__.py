"""``check``: does placement work on this machine, and is a process where it should be."""
