"""Every requirement, guarantee and case, with the reason where no test has to show it yet.

An id without a reason must be on at least one test (``@pytest.mark.requirement("R11")``). An id with a
reason may have tests that show a part of it; only "none yet" claims that there are none.
G10, G11 and G12 name a guarantee and a case each: the bare id is the guarantee, ``case-G10`` the case.
``test_requirements.py`` checks both directions from the source of the tests, so it holds for any selection.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent

SHOWN = ""
RECOVERY = "issue 3: recovery"
PROOF = "issue 4: proof"
APPROVAL = "issue 5: approval"
ENGINES = "issue 6: engines"
GATEWAY = "issue 7: gateway"
ADAPTERS = "issue 8: adapters"

_IDS = {
    SHOWN: """
        R1 R3 R4 R5 R6 R7 R8 R9 R11 R12 R14 R19 R20 R21 R22 R23 R24 R25 G1 G2 G3 G7 G8 G9
        A01 A03 A15 A16 A20 A24 B13 B14 B16 B17 B20 B22 B23 B25
        C01 C02 C03 C04 C06 C07 C08 C11 C12 C14 C15 C18 C19
        E01 E03 E04 E06 E07 E11 E13 E15 F01 F02 F03 F04 F10 F13 F14 F15
        G06 case-G11 case-G12 H09 H10 G12
    """,
    RECOVERY: """
        R2 R18 R26 R27 R28 R29 R30 R31 R32 R33 R34 R35 R38 R39 R40 R41 R42 R43 R44 G5 G6 G10
        B01 B02 B03 B06 B07 B08 B09 B10 B12 B18 B21 C10 E10 H01 H08
    """,
    PROOF: "R37 R53 R54 R55 R56 G09 case-G10",
    APPROVAL: """
        R45 R46 R47 R48 R49 R50 R51 R52 G4
        A05 A08 A09 A13 D01 D02 D03 D05 D06 D07 D08 D09 D10 D11 D12 D14 D15 D17 D18 D19 D21 D23 D24
        E02 G01 G02 G03 G07 H02 H03 H04 H06 H07
    """,
    ENGINES: "R57 G11 A10 A12 A14 B27 F06 F07 F08 F11",
    GATEWAY: "R58 A18 A19 A21 A22",
    ADAPTERS: "R59 R60 A02 A04 A07",
}

_PARTLY = {
    "R10": "issue 3: partly shown; plans of compensation and open commitments are checked when there are any",
    "R13": "issue 5: partly shown; approvals are kept with the step when there are any, compensations with issue 3",
    "R15": "issue 5: partly shown; traces, console, exports and who may read them come with the console",
    "R16": "issue 3: partly shown; the level of the graph comes with it",
    "R17": "issue 5: partly shown; the interval of an approval comes with it",
    "R36": "issue 3: partly shown; an owner's acceptance and the compensated and reconciled endings come with it",
}
"""Requirements of which a part belongs to later work, each with that part."""

REQUIREMENTS: dict[str, str] = {
    **{name: reason for reason, names in _IDS.items() for name in names.split()},
    **_PARTLY,
}
"""id → why no test has to show it yet; empty where one must."""


def markers() -> Iterator[tuple[str, str]]:
    """``(id, place)`` of every ``requirement(...)`` marker in the tests' source."""
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_marker(node.func):
                for argument in node.args:
                    name = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                    yield str(name), f"{path.relative_to(TESTS)}:{node.lineno}"


def _is_marker(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "requirement"


def places_by_id() -> dict[str, list[str]]:
    """Where each id is marked."""
    found: dict[str, list[str]] = {}
    for name, place in markers():
        found.setdefault(name, []).append(place)
    return found


def counts() -> str:
    """One line per reason, for people."""
    found = places_by_id()
    lines = [f"requirements: {len(REQUIREMENTS)} ids, {sum(map(len, found.values()))} markers on tests"]
    for reason in dict.fromkeys(REQUIREMENTS.values()):
        names = [name for name, why in REQUIREMENTS.items() if why == reason]
        partly = f", {sum(name in found for name in names)} partly" if reason else ""
        lines.append(f"  {len(names):4}  {reason or 'shown by tests'}{partly}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(counts() + "\n")
