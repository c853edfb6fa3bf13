"""How kernels are compiled, kept and chosen between."""
