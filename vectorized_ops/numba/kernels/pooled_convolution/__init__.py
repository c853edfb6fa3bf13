"""Convolution fused with 2x2 max pooling."""
