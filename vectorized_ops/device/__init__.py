"""The arithmetic of packed vectors on devices of PyTorch; `vectorized_ops.reference` defines it."""
