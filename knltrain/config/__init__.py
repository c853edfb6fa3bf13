"""Every choice of one run: read from a TOML file, checked, frozen, written back whole."""

from knltrain.config.reading import load_config, to_toml, with_workers
from knltrain.config.run import RunConfig
from knltrain.config.tables import DataConfig, LearningRateConfig

__all__ = [
    "DataConfig",
    "LearningRateConfig",
    "RunConfig",
    "load_config",
    "to_toml",
    "with_workers",
]
