"""Compares the methods of exchange, each in real runs on the same images."""
