"""Operations on activations whose channels follow each other in memory."""
