"""Options and arguments that several commands share, and what they name."""

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amends.core.safe_text import visible
from amends.errors import UsageError

if TYPE_CHECKING:
    from amends.bootstrap import Amends

LedgerOption = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="AMENDS_LEDGER",
        metavar="URL",
        show_default=False,
        help="The ledger: a path or sqlite:// URL.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line; keys as in the reference.")]
AppArgument = Annotated[
    str, typer.Argument(envvar="AMENDS_APP", metavar="MODULE:APP", show_default=False, help="Where the application is.")
]
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="An operation's id, key, resource or target, or a run's id.")
]


def ledger_path(url: str) -> Path:
    """The file that ``url`` names.

    Raises:
        UsageError: none is named, or it is an address this version does not read.
    """
    if not url:
        raise UsageError("no ledger is named; pass --ledger PATH or set AMENDS_LEDGER")
    scheme, mark, rest = url.partition("://")
    if not mark:
        return Path(url)
    if scheme != "sqlite" or not rest:
        raise UsageError(f"--ledger {url!r} cannot be read by this version; name a path or sqlite:///path")
    return Path(rest)


def load_app(name: str) -> "Amends":
    """The application that ``MODULE:APP`` names, imported from the current directory.

    Raises:
        UsageError: there is no such module or attribute, it does not import, or it is no application.
    """
    module_name, mark, attribute = name.partition(":")
    if not name:
        raise UsageError("no application is named; pass MODULE:APP or set AMENDS_APP")
    if not (mark and module_name and attribute):
        raise UsageError(f"{name!r} is not MODULE:APP; write for instance shop.effects:app")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise UsageError(
                f"there is no module {error.name!r} for {name!r}, looked for from {os.getcwd()!r}; "
                "run this where it can be imported, or set PYTHONPATH"
            ) from error
        raise _broken(module_name, error) from error
    except Exception as error:
        raise _broken(module_name, error) from error
    return _application(module, name, attribute)


def _broken(module: str, error: Exception) -> UsageError:
    said = visible(str(error), 300)
    return UsageError(f"module {module!r} did not import: {type(error).__name__}: {said}; repair it and repeat")


def _application(module: object, name: str, attribute: str) -> "Amends":
    from amends import sync
    from amends.bootstrap import Amends

    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{name!r}: the module has no {attribute!r}; name the variable that holds Amends(...)")
        found = getattr(found, part)
    if isinstance(found, sync.Amends):
        return found.asynchronous
    if not isinstance(found, Amends):
        raise UsageError(f"{name!r} is a {type(found).__name__} and no Amends application; name the one that is")
    return found
