"""One local worker: the loop over its steps, and the observers called at its named moments."""
