"""Benchmarks of speed: every contestant in a process of its own, in alternating rounds."""
