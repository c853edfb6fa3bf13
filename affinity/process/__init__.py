"""Reads and sets the place of a process: all calls to the kernel."""
