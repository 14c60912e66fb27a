"""``amends bench``: measures this machine; the work is in ``amends.bench``."""

from typing import Annotated

import typer

from amends.cli.options import JsonOption


def bench(
    *,
    json: JsonOption = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer operations: seconds, not minutes.")] = False,
    directory: Annotated[
        str,
        typer.Option(metavar="DIR", help="The disk to measure; a temporary directory otherwise.", show_default=False),
    ] = "",
) -> None:
    """Measure operations per second beside the disk's own rate of commits."""
    from amends.bench.main import run_command

    raise typer.Exit(run_command(json=json, quick=quick, directory=directory or None))
