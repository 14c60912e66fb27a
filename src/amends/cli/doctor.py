"""``amends doctor``: does this machine keep a ledger safely, and does the record hold together?"""

from typing import TYPE_CHECKING, Annotated

import typer

from amends.cli.options import JsonOption, LedgerOption, ledger_path
from amends.errors import UsageError

if TYPE_CHECKING:
    from amends.cli.examination import Examined
    from amends.cli.output import Output

KEYS = {
    "check": "what was looked at; for a finding in the ledger the finding's kind",
    "result": "`ok`, `note`, `finding` (exit 1) or `integrity` (exit 6)",
    "says": "the result in words",
    "run": "the run it is about; empty otherwise",
    "operation": "the operation it is about; empty otherwise",
}

_MARKS = {"ok": "ok      ", "note": "note    ", "finding": "FINDING ", "integrity": "BROKEN  "}


def doctor(
    *,
    ledger: LedgerOption = "",
    rebuild_check: Annotated[
        bool, typer.Option("--rebuild-check", help="Rebuild the tables from the entries in a copy and compare.")
    ] = False,
    anchor: Annotated[
        str, typer.Option(metavar="FILE", help="Verify the signed checkpoints in this file.", show_default=False)
    ] = "",
    checkpoint: Annotated[
        str, typer.Option(metavar="FILE", help="Sign what the ledger holds now into this file.", show_default=False)
    ] = "",
    key: Annotated[str, typer.Option(metavar="FILE", help="The key that signs checkpoints.", show_default=False)] = "",
    public_key: Annotated[
        str, typer.Option(metavar="HEX", help="Verify with this public key instead of --key.", show_default=False)
    ] = "",
    create_key: Annotated[
        str, typer.Option(metavar="FILE", help="Make a key for checkpoints and leave.", show_default=False)
    ] = "",
    json: JsonOption = False,
) -> None:
    """Check the environment and, where one is named, the ledger; nothing in it is changed.

    Leaves with 0 when all is well, 1 for findings in the environment, 6 when the ledger does not hold together.
    """
    from amends.cli import examination
    from amends.cli.output import Output

    out = Output(json=json)
    if create_key:
        _create_key(out, create_key)
        return
    if (anchor or checkpoint or rebuild_check) and not ledger:
        raise UsageError("which ledger? pass --ledger PATH or set AMENDS_LEDGER")
    seen: list[Examined] = []
    with out.progress("examining"):
        seen += examination.environment()
        if ledger:
            path = ledger_path(ledger)
            seen += examination.ledger(path, rebuild_check=rebuild_check)
            seen += examination.anchored(path, anchor=anchor, checkpoint=checkpoint, key=key, public_key=public_key)
    for each in seen:
        _say(out, each)
    worst = {each.result for each in seen}
    raise typer.Exit(6 if "integrity" in worst else 1 if "finding" in worst else 0)


def _say(out: "Output", each: "Examined") -> None:
    from amends.core.safe_text import visible

    if out.json:
        out.record(each._asdict())
        return
    about = "".join(f" [{kind} {value}]" for kind, value in (("run", each.run), ("operation", each.operation)) if value)
    out.line(f"{_MARKS[each.result]}{each.check}: {visible(each.says + about, 2_000, keep=chr(92))}")


def _create_key(out: "Output", path: str) -> None:
    from amends.ledger.anchor import create_key

    public = create_key(path).hex()
    if out.json:
        out.record({"check": "create_key", "result": "ok", "says": public, "run": "", "operation": ""})
    else:
        out.line(f"the key is in {path}; keep its public half with whoever verifies:")
        out.line(public)
