"""What a command prints: JSON lines, tables on a terminal, plain text in a pipe.

On a terminal rich draws; in a pipe there is no escape sequence, no progress, and nothing is cut to a width.
Foreign text passes through ``visible`` and reaches rich as ``Text``, never as markup.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amends.core.safe_text import visible

WHOLE = ("RUN", "OPERATION")
"""Columns whose cells are copied, and so stay on one line also on a narrow terminal."""

CELL_CHARS_MAX = 2_000
"""Characters of one cell: longer than any id or address, shorter than a document."""


class Unwritten(Exception):
    """Standard output took no more; ``error`` says why. Not an ``OSError``: those are about a command's own files."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def write(text: str) -> None:
    """``text`` to standard output.

    Raises:
        Unwritten: it took no more.
    """
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise Unwritten(error) from error


def flush() -> None:
    """Send what was written.

    Raises:
        Unwritten: as above.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        raise Unwritten(error) from error


class Output:
    """Standard output, as ``--json`` and the terminal want it."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.terminal: bool = not json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def flush(self) -> None:
        """What was written so far is to be seen now."""
        flush()

    def record(self, record: Mapping[str, Any]) -> None:
        """One JSON object on one line, in ASCII."""
        write(json.dumps(record, separators=(", ", ": ")) + "\n")

    def line(self, text: str = "") -> None:
        """One line of our own words; foreign text in it is escaped already."""
        if self.terminal:
            self._console().print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
        else:
            write(text + "\n")

    def heading(self, text: str) -> None:
        """A line that begins a part."""
        if not self.terminal:
            write(text + "\n")
            return
        from rich.text import Text

        self._console().print(Text(text, style="bold"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table; nothing in it is cut, on a terminal long cells are folded."""
        cells = [["" if cell is None else visible(str(cell), CELL_CHARS_MAX) for cell in row] for row in rows]
        if self.terminal:
            self._draw(columns, cells)
            return
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        for row in [list(columns), *cells]:
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            write(text.rstrip() + "\n")

    def pairs(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Names and values, one pair a line; pairs without a value are left out."""
        shown = [(name, str(value)) for name, value in pairs if value not in (None, "")]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.line(f"  {name.ljust(width)}  {visible(value, CELL_CHARS_MAX)}")

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[None]:
        """Says on a terminal that ``what`` is going on; silent in a pipe."""
        if not (self.terminal and sys.stderr.isatty()):
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield

    def _console(self) -> Any:
        from rich.console import Console

        return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)

    def _draw(self, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column, values in zip(columns, zip(*cells, strict=True), strict=True):
            whole = max(map(len, values)) if column in WHOLE else None
            table.add_column(Text(column), overflow="fold", min_width=whole)
        for row in cells:
            table.add_row(*map(Text, row))
        self._console().print(table)
