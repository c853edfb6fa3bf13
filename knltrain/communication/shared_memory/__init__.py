"""Memory that processes of a node share: pages, atomics, waiting, and who is alive."""
