"""Memory that processes of a node share: pages, atomics, polling, and liveness of processes."""
