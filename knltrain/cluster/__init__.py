"""The identity of this process in a run and in a cluster, read from the environment.

Only this package, and `affinity` for the machine, read environment variables.
"""
