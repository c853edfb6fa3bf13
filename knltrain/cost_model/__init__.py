"""How long exchanges take, before they are run: formulas, measured tables, published runs.

A message of n bytes takes α + β n seconds (`line`). Collective operations are sums of messages
(`collectives`). One pair of constants is not enough where the algorithm or the memory changes with
the size, so measured times by bytes and ranks come first (`measured`). `validation` compares both
with published measurements.
"""
