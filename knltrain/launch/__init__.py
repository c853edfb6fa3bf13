"""Starts, places, watches and stops the workers of a run, one process each."""
