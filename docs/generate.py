"""Writes the generated parts of the docs; ``--check`` only says what is out of date.

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``. Whatever is
outside of the marks is written by hand and left alone.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from typer.testing import CliRunner

from amends import errors
from amends.bootstrap import Amends
from amends.cli import main
from amends.core.contract import LOCAL, Contract, Mechanism
from amends.core.states import mermaid
from amends.core.terms import Retry
from amends.demo.scenarios import FAULTS, SCENARIOS
from amends.destinations.contracts import ALL as CONTRACTS
from amends.service.registry import Effect
from amends.service.run import Run

DOCS = Path(__file__).parent


def states() -> str:
    """The transition table as a diagram."""
    return f"```mermaid\n{mermaid()}\n```"


def error_table() -> str:
    """Every error class with its code and exit code."""
    rows = ["| error | code | exit code | meaning |", "|---|---|---|---|"]
    for cls in error_classes():
        first = (cls.__doc__ or "").strip().splitlines()[0]
        rows.append(f"| `{cls.__name__}` | [`{cls.code}`](#{cls.code}) | {cls.exit_code} | {first} |")
    return "\n".join(rows)


def error_classes() -> Iterator[type[errors.AmendsError]]:
    """The classes a caller may meet, in the order of the module."""
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.AmendsError):
            yield value


def contract_table() -> str:
    """Every shipped contract: what it promises, and below what a person must know and where it is written."""
    rows = [
        "| contract | endpoint | a repeat is known by | key kept | changed parameters | stored 5xx | lookup | lag |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows += [contract_row(contract) for contract in CONTRACTS]
    notes = [f"- `{contract.name}`: {contract.note} Source: {contract.source}." for contract in CONTRACTS]
    return "\n".join([*rows, "", *notes])


def contract_row(contract: Contract) -> str:
    """One line of the table; what is not published reads "not published"."""
    keyed = contract.mechanism is Mechanism.IDEMPOTENCY_KEY
    kept = "–" if not keyed else seconds(contract.key_retention_s)
    lag = "–" if contract.lookup.value == "none" else seconds(contract.lookup_lag_ms and contract.lookup_lag_ms / 1000)
    columns = [
        f"`{contract.name}`",
        f"`{contract.endpoint}`" if contract.endpoint else "any",
        contract.mechanism.value.replace("_", " "),
        kept,
        "–" if not keyed else ("refused" if contract.refuses_changed_parameters else "swallowed, or not published"),
        "–" if not keyed else ("given again" if contract.replays_errors else "not published"),
        contract.lookup.value,
        "0" if contract.lookup_lag_ms == 0 else lag,
    ]
    return f"| {' | '.join(columns)} |"


def seconds(value: float | None) -> str:
    """A duration with its unit."""
    return "not published" if value is None else f"{value:g} s"


def arguments(function: Callable[..., object], documented: object | None = None) -> str:
    """The arguments of ``function`` with their defaults, as its docstring (or ``documented``'s) tells them."""
    parameters = inspect.signature(function).parameters
    rows = ["| argument | default | meaning |", "|---|---|---|"]
    for names, meaning in described(documented or function, "Args:"):
        for name in names.split(", "):
            rows.append(f"| `{name}` | {default_of(parameters[name])} | {meaning} |")
    return "\n".join(rows)


def default_of(parameter: inspect.Parameter) -> str:
    """What holds when the argument is left out."""
    if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
        return "any number"
    shown = {inspect.Parameter.empty: "required", LOCAL: "here, with no promises"}
    return shown.get(parameter.default, f"`{parameter.default!r}`")


def described(thing: object, heading: str) -> list[tuple[str, str]]:
    """The ``(names, meaning)`` pairs of a docstring's section."""
    _, _, section = (inspect.getdoc(thing) or "").partition(f"{heading}\n")
    section, _, _ = section.partition("\n\n")
    entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n     +.*)*)", section, re.MULTILINE)
    return [(names, plain(meaning)) for names, meaning in entries]


def hooks() -> str:
    """What may be registered beside an effect, as its class says."""
    entries = re.findall(r"^``(.+?)`` — (.+?)[;.]$", inspect.getdoc(Effect) or "", re.MULTILINE)
    rows = ["| hook | what it is |", "|---|---|"]
    return "\n".join(
        [*rows, *(f"| `{hook.replace('|', chr(92) + '|')}` | {plain(meaning)} |" for hook, meaning in entries)]
    )


def plain(text: str) -> str:
    """A docstring's text as one line of Markdown, fit for a table."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def cli() -> str:
    """Each command: its help as it prints it, and the keys of its JSON."""
    app, runner, parts = main.build(), CliRunner(), []
    for command in main.COMMANDS:
        name = command.__name__
        said = runner.invoke(app, [name, "--help"], prog_name="amends", env={"COLUMNS": "100"})
        text = "\n".join(line.rstrip() for line in said.output.strip().splitlines())
        parts.append(f"## amends {name}\n\n```text\n{text}\n```")
        keys = getattr(sys.modules[command.__module__], "KEYS", None)
        if keys:
            rows = "\n".join(f"| `{key}` | {meaning} |" for key, meaning in keys.items())
            parts.append(f"With `--json`, each line has:\n\n| key | meaning |\n|---|---|\n{rows}")
    return "\n\n".join(parts)


def scenarios() -> str:
    """The demo's scenarios and faults, as it lists them itself."""
    rows = ["| scenario | what it does |", "|---|---|"]
    rows += [f"| `{name}` | {scenario.says} |" for name, scenario in SCENARIOS.items()]
    rows += ["", "| fault | what goes wrong | the run ends |", "|---|---|---|"]
    rows += [f"| `{name}` | {fault.says} | {fault.ending} |" for name, fault in FAULTS.items()]
    return "\n".join(rows)


APPLICATION = DOCS / "reference/application.md"
PARTS: dict[str, tuple[Path, Callable[[], str]]] = {
    "application": (APPLICATION, partial(arguments, Amends.__init__, Amends)),
    "destination": (APPLICATION, partial(arguments, Amends.destination)),
    "run": (APPLICATION, partial(arguments, Amends.run)),
    "do": (APPLICATION, partial(arguments, Run.do)),
    "retry": (APPLICATION, partial(arguments, Retry)),
    "evidence": (APPLICATION, partial(arguments, Amends.evidence)),
    "scenarios": (DOCS / "tutorial/demo.md", scenarios),
    "contracts": (DOCS / "reference/contracts.md", contract_table),
    "cli": (DOCS / "reference/cli.md", cli),
    "effect": (DOCS / "reference/effects.md", partial(arguments, Amends.effect)),
    "hooks": (DOCS / "reference/effects.md", hooks),
    "states": (DOCS / "explanation/states.md", states),
    "errors": (DOCS / "reference/errors.md", error_table),
}


def with_part(text: str, name: str, part: str) -> str:
    """``text`` with the generated part ``name`` replaced by ``part``."""
    start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the marks of {name!r} must be there exactly once")
    return pattern.sub(lambda _: f"{start}\n{part}\n{end}", text)


def run(arguments: list[str]) -> int:
    """Write, or with ``--check`` compare. 0 is up to date, 1 is not."""
    stale = []
    for name, (path, make) in PARTS.items():
        text = path.read_text(encoding="utf-8")
        new = with_part(text, name, make())
        if new != text:
            stale.append(path.relative_to(DOCS.parent))
            if "--check" not in arguments:
                path.write_text(new, encoding="utf-8")
    if "--check" not in arguments:
        sys.stdout.write(f"{len(PARTS)} generated parts, {len(stale)} written anew\n")
        return 0
    for path in stale:
        sys.stderr.write(f"{path} is out of date; run `python docs/generate.py`\n")
    sys.stdout.write(f"{len(PARTS)} generated parts, {len(stale)} out of date\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
