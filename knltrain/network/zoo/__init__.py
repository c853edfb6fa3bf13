"""Published networks."""
