"""How fast the workers of a node exchange vectors: our ways, and libraries, side by side."""
