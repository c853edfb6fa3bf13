"""Where things sit: the machine's cores and memories, and the place of each worker on them."""
