"""A torch that imports at once: just enough of it for torchrun's part in a launch."""

from . import distributed, version  # noqa: F401
from .version import __version__  # noqa: F401
