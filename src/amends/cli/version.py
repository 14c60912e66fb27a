"""Which Amends this is."""

from importlib import metadata


def version() -> str:
    """The installed version, or that it is not installed."""
    try:
        return metadata.version("amends")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
