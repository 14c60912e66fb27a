"""``amends demo``: a reference scenario on real local destinations; the work is in ``amends.demo``."""

from importlib.util import find_spec
from typing import Annotated

import typer

from amends.cli.options import JsonOption
from amends.errors import MissingExtra, UsageError

_NEEDS = ("starlette", "uvicorn", "h11", "aiosmtpd")


def demo(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The scenario; `--list` names them.")
    ] = "replacement-order",
    list_: Annotated[bool, typer.Option("--list", help="List scenarios and their faults, and leave.")] = False,
    fault: Annotated[str, typer.Option(metavar="F", help="A fault by name, `none` or `all`.")] = "none",
    json: JsonOption = False,
    keep: Annotated[
        str, typer.Option(metavar="DIR", help="Keep ledger and stores in this directory.", show_default=False)
    ] = "",
    auto: Annotated[bool, typer.Option("--auto", help="Software keys instead of people; implied by --json.")] = False,
    ledger: Annotated[str, typer.Option(metavar="KIND", help="Where the ledger is: sqlite.")] = "sqlite",
    engine: Annotated[str, typer.Option(metavar="KIND", help="What drives the runs: embedded.")] = "embedded",
) -> None:
    """Run a reference scenario on real local destinations, with faults, and tell the story."""
    if ledger != "sqlite" or engine != "embedded":
        raise UsageError(
            f"this version has --ledger sqlite and --engine embedded, not {ledger!r} and {engine!r}; leave them out"
        )
    missing = [module for module in _NEEDS if find_spec(module) is None]
    if missing:
        raise MissingExtra(
            f"amends demo needs {', '.join(missing)}, which are not installed: pip install 'amends[demo]'"
        )
    from amends.cli.delegating import delegate

    raise typer.Exit(delegate("amends.demo.main", name=name, fault=fault, json=json, keep=keep or None, list_=list_))
