"""Ways for a worker to take part in the exchanges of its run.

A strategy says what a worker does at the moments of a step; `selection` finds that of a method.
"""
