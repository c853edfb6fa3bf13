"""Operations of CNN training: one definition in NumPy, several fast implementations."""
