"""Suite-wide: a requirement marker without an id is a mistake, seen at collection."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ``requirement()`` without ids, or with anything but text."""
    for item in items:
        for marker in item.iter_markers("requirement"):
            if not marker.args or not all(isinstance(name, str) for name in marker.args) or marker.kwargs:
                raise pytest.UsageError(f"{item.nodeid}: requirement(...) takes ids, e.g. requirement('R11')")
