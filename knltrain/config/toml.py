"""The parser of TOML: Python 3.10 has no tomllib; tomli is the same parser under its older name."""

import importlib
import sys

tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
