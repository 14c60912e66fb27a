"""The shop, opened later: its clock begins at ``LATER_MS``, so no test has to wait."""

import os

from shop import app

LATER_MS = int(os.environ["LATER_MS"])
app.clock.now_ms = lambda: LATER_MS  # type: ignore[method-assign]

__all__ = ["app"]
