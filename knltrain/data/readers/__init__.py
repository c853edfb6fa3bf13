"""Readers of data sets, a module for each format: each makes an image source of each half."""
