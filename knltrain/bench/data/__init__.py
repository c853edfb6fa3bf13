"""How fast pictures become images."""
