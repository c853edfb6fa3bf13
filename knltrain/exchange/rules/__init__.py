"""What an exchange does to a local and the center, method by method."""
