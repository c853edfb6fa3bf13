"""Operations on arrays (N, H, W, C) in C order: the lanes of a vector are channels."""
