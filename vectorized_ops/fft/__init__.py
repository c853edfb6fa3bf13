"""Convolutions by PyTorch's fast Fourier transforms: only to be measured beside the others."""
