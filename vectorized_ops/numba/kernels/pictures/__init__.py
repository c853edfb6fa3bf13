"""The pass from pictures of bytes to images."""
