"""A run of which tests have a result in seconds."""

from __future__ import annotations

RUN_TOML = """
workers = 2
[network]
name = "lenet"
[data]
name = "digits"
train_images = 96
[train]
epochs = 2
batch = 16
[learning_rate]
base = 0.01
[checkpoint]
every_epochs = 1
keep = 100
"""
"""Two workers, 6 steps per epoch, and a checkpoint after each."""
