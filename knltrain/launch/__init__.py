"""One process per worker: start it, place it, watch it, stop it."""
