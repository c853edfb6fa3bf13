"""`knltrain bench cnn`: connected networks, profiled while they train."""
