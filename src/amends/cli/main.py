"""``amends``: the commands, and the one place where errors become exit codes.

    0 done · 1 the answer is no · 2 usage · 3 refused · 4 waiting for a person · 5 outcome unknown ·
    6 ledger integrity or unavailable · 70 a fault of Amends itself

What a command answers goes to standard output; what went wrong goes to standard error, with ``--json`` as one
JSON object.
"""

import json
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from amends.cli.bench import bench
from amends.cli.demo import demo
from amends.cli.doctor import doctor
from amends.cli.pending import pending
from amends.cli.recover import recover
from amends.cli.runs import runs
from amends.cli.show import show
from amends.cli.why import why
from amends.core.safe_text import visible
from amends.errors import AmendsError

FAULT_OF_OURS = 70
MESSAGE_CHARS_MAX = 8_000

COMMANDS = (demo, runs, show, why, pending, recover, doctor, bench)


def _version(wanted: bool) -> None:
    if wanted:
        from amends.cli.version import version

        typer.echo(f"amends {version()}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Say the version and leave.")
    ] = False,
) -> None:
    """The transaction layer for AI agents: what was intended, attempted, made, verified and is still owed."""


def build() -> typer.Typer:
    """The command line, as typer has it."""
    app = typer.Typer(
        name="amends",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in COMMANDS:
        app.command()(command)
    return app


def main() -> NoReturn:
    """Run the command of ``sys.argv`` and leave with its exit code."""
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started us
        _without_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        build()()
    except AmendsError as error:
        _say(error.message, code=error.code, exit_code=error.exit_code)
        sys.exit(error.exit_code)
    except OSError as error:
        _say(f"{type(error).__name__}: {error}; look at the path and its permissions", code="os", exit_code=2)
        sys.exit(2)
    except Exception:  # noqa: BLE001 — the edge: a fault must not look like an answer
        traceback.print_exc()
        _say("this is a fault of Amends; please report it with the lines above", code="fault", exit_code=FAULT_OF_OURS)
        sys.exit(FAULT_OF_OURS)
    sys.exit(0)


def _without_streams() -> NoReturn:
    """An answer that nobody can be told is no answer; with one stream closed, the other may be told."""
    if sys.stderr is not None:
        said = "standard output is closed, so nothing could be told; open it, or send it to a file"
        _say(said, code="os", exit_code=2)
    sys.exit(2)


def _say(message: str, *, code: str, exit_code: int) -> None:
    shown = visible(message, MESSAGE_CHARS_MAX, keep="\\\n")
    if "--json" in sys.argv[1:]:
        shown = json.dumps({"error": code, "exit_code": exit_code, "message": message})
        sys.stderr.write(shown + "\n")
    else:
        sys.stderr.write(f"error: {shown}\n")
