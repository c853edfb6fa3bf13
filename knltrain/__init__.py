"""Training convolutional networks on many-core CPUs by elastic averaging between pinned workers."""

__version__ = "0.1.0"
