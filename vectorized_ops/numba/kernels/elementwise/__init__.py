"""Operations on values one by one, and softmax."""
