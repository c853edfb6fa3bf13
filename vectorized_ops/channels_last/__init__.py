"""Operations on arrays in C order, (N, H, W, C): the lanes of a vector are channels.

No image is padded, so small batches compute nothing in vain. `vectorized_ops.reference` defines the
operations, and computes those that this package lacks.
"""
