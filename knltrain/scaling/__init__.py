"""Scaling, from the folders of runs with different numbers of workers: a table and a picture."""

from knltrain.scaling.picture import draw_scaling
from knltrain.scaling.report import scaling_of
from knltrain.scaling.table import told

__all__ = ["draw_scaling", "scaling_of", "told"]
