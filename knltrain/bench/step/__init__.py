"""`knltrain bench step`: one training step beside those of other engines."""
