"""Commands whose work is a part of its own, imported when it is asked for."""

import importlib
from typing import Any

from amends.errors import UsageError


def delegate(module: str, **options: Any) -> int:
    """Call ``run_command(**options)`` of ``module``; its exit code.

    Raises:
        UsageError: this installation does not have the part.
    """
    try:
        part = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module and not module.startswith(f"{error.name}."):
            raise
        raise UsageError(f"this installation of Amends has no {module!r}; install a complete one") from error
    return int(part.run_command(**options))
