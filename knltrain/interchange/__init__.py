"""Networks from PyTorch, and back."""
