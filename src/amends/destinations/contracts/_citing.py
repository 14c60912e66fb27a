"""How a contract names its source."""

from typing import Final

READ_ON: Final = "2026-11-30"
"""When the sources below were read, in stored copies of the public pages."""


def cited(*sources: tuple[str, str], read_on: str = READ_ON) -> str:
    """``(title, address)`` pairs as one line; the day is when somebody last compared contract and source."""
    return "; ".join(f"{title} <{address}>" for title, address in sources) + f"; read {read_on}"
