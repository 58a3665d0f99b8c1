"""conda's settings for every user of the host, as far as Muster writes them."""

from . import reading

FILE = "/etc/conda/condarc.d/muster.yml"


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; none is used.

    Returns:
        ``{"condarc": text of Muster's file or None}``.
    """
    return {"condarc": reading.text(FILE)}
