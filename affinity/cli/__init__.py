"""The words of ``python -m affinity``: show, plan, check, run, snapshot."""
