"""`knltrain bench ops`: each operation of a network by itself."""
