"""`knltrain bench layers`: the layers of a network by the library of distributed layers."""
