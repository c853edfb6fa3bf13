"""``check``: whether placement works on this machine, and whether a process is in its place."""
