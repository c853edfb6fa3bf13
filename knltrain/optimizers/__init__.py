"""Rules that move a worker's own parameters, and the learning rates they move with."""
