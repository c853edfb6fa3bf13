"""Conversion of networks from and to PyTorch."""
