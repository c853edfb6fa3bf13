"""The cost model of exchanges, beside published measurements and for a network."""
