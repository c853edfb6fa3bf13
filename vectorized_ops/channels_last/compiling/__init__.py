"""How kernels of this implementation are compiled: as those of Numba's."""
