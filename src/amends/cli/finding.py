"""From what a person typed to the operations that are meant."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from amends.core.safe_text import visible

if TYPE_CHECKING:
    from amends.cli.output import Output
    from amends.core.history import History
    from amends.ledger.snapshot import Snapshot


def find(look: "Snapshot", text: str, *, tenant: str = "") -> list[tuple["History", Sequence[str]]]:
    """Each run that ``text`` names something in, with the ids of the operations that are meant in it.

    A run's id and a business event mean all operations of the run. Leaves with 1 when nothing is found.
    """
    whole = look.of_event(text, tenant=tenant or None)
    if text not in whole and look.run(text) is not None:
        whole.append(text)
    by_run: dict[str, list[str]] = {run: [row.id for row in look.search(run) if row.run == run] for run in whole}
    for row in look.search(text):
        operations = by_run.setdefault(row.run, [])
        if row.id not in operations:
            operations.append(row.id)
    chosen = [run for run in by_run if not tenant or _tenant(look, run) == tenant]
    if not chosen:
        where = f" of tenant {tenant!r}" if tenant else ""
        typer.echo(
            f"nothing{where} in {str(look.path)!r} has the id, key, resource, target, run or event {text!r}; "
            "`amends runs` lists what there is",
            err=True,
        )
        raise typer.Exit(1)
    return [(look.history(run), by_run[run]) for run in chosen]


def _tenant(look: "Snapshot", run: str) -> str:
    row = look.run(run)
    return row.tenant if row is not None else ""


def list_several(out: "Output", look: "Snapshot", found: Sequence[tuple["History", Sequence[str]]], text: str) -> None:
    """Say which runs are told, where ``text`` names something in more than one."""
    from amends.cli.runs import COLUMNS, cells, record

    rows = [row for told, _ in found if (row := look.run(told.state.id)) is not None]
    if len(rows) < 2:
        return
    out.heading(f"{visible(repr(text))} is in {len(rows)} runs")
    out.table(COLUMNS, [cells(record(look, row)) for row in rows])
    out.line()
