"""`knltrain bench nodes`: the same training on one host and on several, beside DDP."""
