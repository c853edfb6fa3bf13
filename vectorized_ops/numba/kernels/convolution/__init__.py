"""Convolutions: direct, by Winograd's and by Strassen's algorithms, and by AMX's tiles."""
