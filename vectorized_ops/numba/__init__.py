"""The operations compiled by Numba for the processor at hand."""
