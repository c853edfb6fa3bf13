"""The configuration of a run: read from a TOML file, checked, immutable, and written back."""

from knltrain.config.data_table import DataConfig
from knltrain.config.optimizer_tables import LearningRateConfig
from knltrain.config.reading import load_config, to_toml, with_data, with_workers
from knltrain.config.run import RunConfig

__all__ = [
    "DataConfig",
    "LearningRateConfig",
    "RunConfig",
    "load_config",
    "to_toml",
    "with_data",
    "with_workers",
]
