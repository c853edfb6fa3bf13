"""Shares of a batch for workers of unequal speed: fitted to measured times, recorded, replayed."""
