"""Strategies: when a worker takes part in the exchanges of its run, at which moments of a step."""
