"""What operations bound by memory compute of a vector, whether its lanes are images or channels.

The loops around it belong to a memory layout each: `normalisation` and `elementwise` have those for
images that run fastest, `channels_last` those for channels. What they read ahead, what they store
past the caches and how they sum up is theirs.
"""
