"""Options and arguments that several commands share, and what they name."""

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from amends.core.safe_text import visible
from amends.errors import UsageError

if TYPE_CHECKING:
    from amends.bootstrap import Amends


def utf8(value: str) -> str:
    """``value``, where every byte that was typed is text: nothing is recorded or named in anything else.

    Raises:
        UsageError: it is not UTF-8.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the argument {value!r} is not UTF-8; type it in a terminal that uses UTF-8") from None
    return value


def text_option(metavar: str, help: str) -> Any:
    """An option that takes text and may be left out."""
    return typer.Option(metavar=metavar, help=help, show_default=False, callback=utf8)


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
    str,
    typer.Argument(
        envvar="AMENDS_APP", metavar="MODULE:APP", show_default=False, help="Where the application is.", callback=utf8
    ),
]
IdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="An operation's id, key, resource or target, or a run's id or event.", callback=utf8
    ),
]


TenantOption = Annotated[str, text_option("TENANT", "Only in this tenant's runs.")]


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
    except BaseException as error:
        raise _broken(module_name, error) from error
    return _application(module, name, attribute)


def _broken(module: str, error: BaseException) -> UsageError:
    return UsageError(f"module {module!r} did not import: {said_by(error)}; repair it and repeat")


def said_by(error: BaseException) -> str:
    """What an exception of somebody else's code says, made safe to show; its own code may fail at that."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 — as above
        text = ""
    return f"{type(error).__name__}{': ' if text else ''}{visible(text, 300)}"


def _application(module: object, name: str, attribute: str) -> "Amends":
    from amends import sync
    from amends.bootstrap import Amends

    found: object = module
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise UsageError(
            f"{name!r}: the module has no {attribute!r}; name the variable that holds Amends(...)"
        ) from None
    except BaseException as error:
        raise UsageError(
            f"{name!r}: {attribute!r} cannot be looked up: {said_by(error)}; name the variable that holds Amends(...)"
        ) from error
    kind = type(found)  # isinstance would ask the object, which may say anything
    if issubclass(kind, sync.Amends):
        return cast("sync.Amends", found).asynchronous
    if not issubclass(kind, Amends):
        raise UsageError(f"{name!r} is a {type(found).__name__} and no Amends application; name the one that is")
    return cast("Amends", found)
