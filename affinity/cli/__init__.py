"""The commands of ``python -m affinity``: show, plan, check, run, snapshot."""
