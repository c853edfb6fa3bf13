"""Where locals and centers lie, and how exchanges reach them."""
