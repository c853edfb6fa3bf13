"""The implementation by oneDNN, reached through PyTorch's own operators."""
