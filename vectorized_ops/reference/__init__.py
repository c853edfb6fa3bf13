"""The definition of every operation in plain NumPy; other implementations are tested against it."""
