"""The kernels behind the public operations, by kind of operation."""
