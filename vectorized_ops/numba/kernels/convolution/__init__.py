"""Convolutions: direct, by Winograd's and by Strassen's algorithms."""
