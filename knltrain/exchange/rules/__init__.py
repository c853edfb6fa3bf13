"""Exchange rules: the arithmetic between a local and the center, one module for each method."""
