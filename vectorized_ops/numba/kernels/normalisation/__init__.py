"""Batch normalisation and local response normalisation."""
