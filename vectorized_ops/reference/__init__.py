"""What every operation means, in plain NumPy; the other implementations are tested against it."""
