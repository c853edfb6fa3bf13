"""Convolution and 2x2 max pooling in one."""
