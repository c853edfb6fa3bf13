"""Unequal workers: how much of the sum of their speeds a run reaches."""
