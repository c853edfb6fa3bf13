"""Labelled images, and the order in which workers see them."""
