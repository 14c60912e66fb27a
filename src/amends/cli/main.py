"""``amends``: the commands, and the one place where errors become exit codes.

    0 done · 1 the answer is no · 2 usage · 3 refused · 4 waiting for a person · 5 outcome unknown ·
    6 ledger integrity or unavailable · 70 a fault of Amends itself · 141 nobody reads the output any more

What a command answers goes to standard output; what went wrong goes to standard error, with ``--json`` as one
JSON object.
"""

import contextlib
import json
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from amends.cli.bench import bench
from amends.cli.demo import demo
from amends.cli.doctor import doctor
from amends.cli.output import Unwritten, flush
from amends.cli.pending import pending
from amends.cli.recover import recover
from amends.cli.runs import runs
from amends.cli.show import show
from amends.cli.why import why
from amends.core.safe_text import visible
from amends.errors import AmendsError, UsageError

FAULT_OF_OURS = 70
NOBODY_READS = 141
"""What a shell says of a program that SIGPIPE ended: 128 + 13."""

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
    if sys.stderr is None:  # closed: nobody is told, and the exit code still says it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        _prepare_streams()
        code = _run()
        flush()
    except Unwritten as unwritten:
        code = _left_unread(unwritten.error)
    except AmendsError as error:
        _say(error.message, code=error.code, exit_code=error.exit_code)
        code = error.exit_code
    except OSError as error:
        _say(f"{type(error).__name__}: {error}; look at the path and its permissions", code="os", exit_code=2)
        code = 2
    except Exception:  # noqa: BLE001 — the edge: a fault must not look like an answer
        traceback.print_exc()
        _say("this is a fault of Amends; please report it with the lines above", code="fault", exit_code=FAULT_OF_OURS)
        code = FAULT_OF_OURS
    sys.exit(code)


def _prepare_streams() -> None:
    if sys.stdout is None:
        raise UsageError("standard output is closed, so there is nowhere to answer; send it to /dev/null instead")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run() -> int:
    try:
        build()()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _left_unread(error: OSError) -> int:
    """Nobody reads on (``| head``): end quietly, as other tools do. A disk that is full is told."""
    with contextlib.suppress(OSError):  # what is still in the buffer has to go somewhere when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return NOBODY_READS
    said = f"standard output could not be written: {error.strerror}; what was printed is not whole"
    _say(f"{said}: free space or send it elsewhere, and repeat", code="os", exit_code=2)
    return 2


def _say(message: str, *, code: str, exit_code: int) -> None:
    shown = f"error: {visible(message, MESSAGE_CHARS_MAX, keep=chr(92) + chr(10))}"
    if "--json" in sys.argv[1:]:
        shown = json.dumps({"error": code, "exit_code": exit_code, "message": message})
    with contextlib.suppress(OSError):  # nobody can be told; the exit code still says it
        sys.stderr.write(shown + "\n")
        sys.stderr.flush()
