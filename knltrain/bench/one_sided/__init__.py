"""How fast one process works on memory of another, which computes meanwhile."""
