"""From what a person typed to the operations that are meant."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from amends.core.history import History
    from amends.ledger.snapshot import Snapshot


def find(look: "Snapshot", text: str) -> list[tuple["History", Sequence[str]]]:
    """Each run that ``text`` names something in, with the ids of the operations that are meant in it.

    A run's id means all of its operations. Leaves with 1 when nothing is found.
    """
    rows = look.search(text)
    by_run: dict[str, list[str]] = {}
    if look.run(text) is not None:
        by_run[text] = []
    for row in rows:
        by_run.setdefault(row.run, []).append(row.id)
    if not by_run:
        typer.echo(
            f"nothing in {str(look.path)!r} has the id, key, resource, target or run {text!r}; "
            "`amends runs` lists what there is",
            err=True,
        )
        raise typer.Exit(1)
    return [(look.history(run), operations) for run, operations in by_run.items()]
