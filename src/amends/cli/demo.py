"""``amends demo``: the reference scenarios on real local destinations; the work is in ``amends.demo``."""

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amends.cli.options import JsonOption
from amends.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from amends.cli.output import Output
    from amends.demo.account import Account
    from amends.demo.scenarios import Scenario
    from amends.demo.stage import Tell

KEYS = {
    "scenario": "its name",
    "fault": "what went wrong in it",
    "run": "the run's id",
    "ending": "the run's ending, or `waiting`",
    "effects": "object: destination → effects of this run, counted from the destination's own store",
    "expected": "object: the same destinations → the right count, fixed before the run",
    "attempts": "claims of all operations of the run",
    "unresolved": "list of ids of operations that are not settled",
    "ok": "whether effects and ending are right",
    "ledger": "the ledger's path",
}

INTERRUPTED = 130
"""What a shell says of a program that was ended by Ctrl-C."""

_NEEDED = ("starlette", "uvicorn", "h11", "aiosmtpd")


def demo(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The scenario; all of them without one.", show_default=False)
    ] = "",
    list_: Annotated[bool, typer.Option("--list", help="List scenarios and faults, and leave.")] = False,
    fault: Annotated[str, typer.Option(metavar="FAULT", help="One fault, or all of them.")] = "all",
    keep: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Leave ledger and stores in this empty or new directory; without it, in a temporary one.",
            show_default=False,
        ),
    ] = "",
    auto: Annotated[
        bool, typer.Option("--auto", help="Ask nobody. These scenarios ask nobody yet; --json implies it.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run reference scenarios on real local destinations, with real faults, and count what was done.

    Leaves with 0 when effects and endings are right in all of them, otherwise with 1.
    """
    from amends.cli.output import Output

    out = Output(json=json)
    if list_:
        _list(out)
        return
    scenarios, faults = _chosen(name, fault)
    _require_extra()
    directory = _directory(keep)
    accounts: list[Account] = []
    try:
        _play(out, directory, scenarios, faults, accounts)
    except KeyboardInterrupt:
        _left(out, directory, accounts, "interrupted; what was written so far stays")
        raise typer.Exit(INTERRUPTED) from None
    except BaseException:
        _left(out, directory, accounts, "it could not go on; what was written so far stays")
        raise
    _sum_up(out, directory, accounts)
    raise typer.Exit(0 if all(each.ok for each in accounts) else 1)


def _list(out: "Output") -> None:
    from amends.demo.scenarios import FAULTS, SCENARIOS

    if out.json:
        for each in SCENARIOS.values():
            out.record({"scenario": each.name, "says": each.says, "faults": list(FAULTS)})
        return
    out.table(("SCENARIO", "WHAT IT DOES"), [(each.name, each.says) for each in SCENARIOS.values()])
    out.line()
    out.table(("FAULT", "WHAT GOES WRONG"), [(word, each.says) for word, each in FAULTS.items()])


def _chosen(name: str, fault: str) -> tuple[list["Scenario"], list[str]]:
    from amends.demo.scenarios import FAULTS, SCENARIOS

    if name and name not in SCENARIOS:
        raise UsageError(f"there is no scenario {name!r}; name one of {', '.join(SCENARIOS)}")
    if fault != "all" and fault not in FAULTS:
        raise UsageError(f"there is no fault {fault!r}; name one of {', '.join(FAULTS)}, or all")
    chosen = [SCENARIOS[name]] if name else list(SCENARIOS.values())
    return chosen, list(FAULTS) if fault == "all" else [fault]


def _require_extra() -> None:
    missing = [module for module in _NEEDED if find_spec(module) is None]
    if missing:
        raise MissingExtra(
            f"amends demo needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed: "
            "pip install '.[demo]' from a clone, pip install 'amends[demo]' otherwise"
        )


def _directory(keep: str) -> Path:
    """An empty directory: the named one, or a fresh one."""
    if not keep:
        try:
            return Path(tempfile.mkdtemp(prefix="amends-demo-"))
        except OSError as error:
            raise UsageError(
                f"there is no usable temporary directory ({error}); name a directory with room: --keep DIR, or TMPDIR"
            ) from error
    try:
        directory = Path(os.path.abspath(keep))
        directory.mkdir(parents=True, exist_ok=True)
        used = any(directory.iterdir())
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--keep {keep!r} cannot be used: {said}; name a new or empty directory") from error
    if used:
        raise UsageError(f"--keep {keep!r} is not empty, and nothing in it is touched; name a new or empty directory")
    return directory


class _Story:
    """Tells the runs as they happen; nothing with ``--json``."""

    def __init__(self, out: "Output") -> None:
        self._out = out

    @property
    def tell(self) -> "Tell":
        return self._tell

    def _tell(self, at_ms: int, who: str, says: str) -> None:
        from amends.core.safe_text import visible
        from amends.core.wording import instant

        if not self._out.json:
            self._out.line(f"  {instant(at_ms)[11:-1]}  {who:6}  {visible(says, 1_000, keep=chr(92))}")
            self._out.flush()

    def begins(self, scenario: "Scenario", fault: str, order: str) -> None:
        from amends.demo.scenarios import FAULTS

        if not self._out.json:
            self._out.line()
            self._out.heading(f"{scenario.name}, {fault}: {FAULTS[fault].says}")
            self._out.flush()

    def ends(self, account: "Account") -> None:
        """The table of a run, or its line of JSON."""
        if self._out.json:
            self._out.record(account.to_json())
            self._out.flush()
            return
        columns = ("EFFECT", "INTENDED", "ATTEMPTED", "FOUND", "VERIFIED", "COUNTED AT")
        rows = [
            (each.action, each.intended, each.attempted, each.found, each.verified, each.counted)
            for each in account.lines
        ]
        self._out.line()
        self._out.table(columns, rows)
        self._out.line(_verdict(account))
        self._out.flush()


def _verdict(account: "Account") -> str:
    twice = [place for place, count in account.effects.items() if count > 1]
    said = f"{'right' if account.ok else 'WRONG'}: the run is {account.ending}"
    said += f"; counted twice at {', '.join(twice)}" if twice else "; nothing was done twice"
    return f"{said}; {len(account.unresolved)} unresolved" if account.unresolved else said


def _play(
    out: "Output", directory: Path, scenarios: list["Scenario"], faults: list[str], accounts: list["Account"]
) -> None:
    story = _Story(out)
    with out.progress("starting") if out.terminal else contextlib.nullcontext():
        from amends.demo.play import play
    if not out.json:
        out.line(f"Five destinations are started, each a process of its own, in {shell_word(str(directory))}")
    for each in play(directory, scenarios, faults, story):
        accounts.append(each)
        story.ends(each)


def _sum_up(out: "Output", directory: Path, accounts: list["Account"]) -> None:
    if out.json:
        return
    right = sum(each.ok for each in accounts)
    effects = sum(sum(each.effects.values()) for each in accounts)
    out.line()
    out.heading(f"{right} of {len(accounts)} runs are right; effects counted at the destinations: {effects}")
    _commands(out, directory, accounts)


def _left(out: "Output", directory: Path, accounts: list["Account"], said: str) -> None:
    if out.json:
        return
    with contextlib.suppress(OSError, ValueError):  # the terminal may be what is gone
        sys.stderr.write(f"{said} in {shell_word(str(directory))}\n")
        if accounts:
            _commands(out, directory, accounts)


def _commands(out: "Output", directory: Path, accounts: list["Account"]) -> None:
    amends, ledger = _program(), shell_word(str(directory / "ledger.db"))
    open_ = [each for each in accounts if each.unresolved]
    out.line()
    out.line("What it left explains itself; the directory may be deleted:")
    out.line(f"  {amends} runs --ledger {ledger}")
    out.line(f"  {amends} pending --ledger {ledger}")
    for each in [*(accounts[:1] if accounts[:1] != open_[:1] else ()), *open_[:1]]:
        out.line(f"  {amends} why {each.run} --ledger {ledger}    # {each.scenario}, {each.fault}")
    for each in open_[:1]:
        out.line(f"  {amends} show {each.unresolved[0]} --ledger {ledger}")


def _program() -> str:
    """How this program is called from here: by its name where a shell finds it, otherwise by its path."""
    started = os.path.abspath(sys.argv[0])
    if os.path.basename(started) != "amends":
        return f"{shell_word(sys.executable)} -m amends"
    on_path = shutil.which("amends")
    return "amends" if on_path is not None and os.path.abspath(on_path) == started else shell_word(started)


def shell_word(text: str) -> str:
    """``text`` as one word that a shell reads back; bytes and characters that nobody sees stand as escapes."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(_escaped(byte) for byte in os.fsencode(text))
    return f"$'{escaped}'"


def _escaped(byte: int) -> str:
    char: Any = chr(byte)
    return char if char.isascii() and char.isprintable() and char not in "'\\" else f"\\x{byte:02x}"
