"""MPI under the exchange: how a process comes to it, and what is built on its one-sided windows."""
