"""Statements live in ``.sql`` files and are taken by name; none is put together from strings."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_SCHEMA = Path(__file__).parent / "schema"
_MARK = "-- name: "


@cache
def statements(file: str) -> Mapping[str, str]:
    """The statements of ``schema/<file>`` by name, in the order of the file."""
    found: dict[str, str] = {}
    for part in (_SCHEMA / file).read_text(encoding="utf-8").split(_MARK)[1:]:
        name, _, text = part.partition("\n")
        lines = [line for line in text.splitlines() if not line.startswith("--")]
        found[name.strip()] = "\n".join(lines).strip().removesuffix(";")
    return MappingProxyType(found)


QUERIES = statements("queries.sql")
