"""What strace saw of a process: its system calls in one order, over all its threads.

strace writes a call when it has returned, or in two parts (``<unfinished ...>``, ``resumed``) when another
thread's came between. A call here has the lines of both its ends, so what happened strictly before what can
be told. A thread goes on only after strace has written its line: the order of the lines is causal.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CALL = re.compile(r"(\d+) +(\w+)\((.*)\) += (\?|-?\d+)(.*)")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*?),? ?<unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (\?|-?\d+)(.*)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_DESCRIPTOR = re.compile(r"(\d+)<((?:\\x[0-9a-f]{2}|[^>])*)>")

BYTES_MAX = 1_000_000
"""Longest argument that a record keeps whole; longer than any write of SQLite."""


class Call(NamedTuple):
    """One system call that returned.

    ``began`` and ``ended`` are places in the record; ``result`` is ``None`` where the process died in it.
    """

    thread: int
    name: str
    arguments: str
    result: int | None
    said: str
    began: int
    ended: int

    @property
    def path(self) -> str:
        """The path of the descriptor it was made on (the first argument)."""
        match = _DESCRIPTOR.match(self.arguments)
        return _plain(match[2]) if match else ""

    @property
    def texts(self) -> list[bytes]:
        """Its quoted arguments, decoded."""
        found = _TEXT.findall(self.arguments)
        assert not any(cut for _, cut in found), f"the record cut an argument: {self.arguments[:80]}"
        return [bytes.fromhex(text.replace("\\x", "")) for text, _ in found]

    @property
    def numbers(self) -> list[int]:
        """Its plain numeric arguments, in order."""
        return [int(part) for part in self.arguments.split(", ") if re.fullmatch(r"-?\d+", part)]

    @property
    def injected(self) -> bool:
        """Whether strace made its result up."""
        return "(INJECTED)" in self.said


def calls(record: Path) -> list[Call]:
    """The calls of ``record``, in the order in which they ended."""
    return list(_calls(record.read_text(encoding="latin-1").splitlines()))


def _calls(lines: list[str]) -> Iterator[Call]:
    open_calls: dict[int, tuple[str, str, int]] = {}
    for number, line in enumerate(lines):
        if match := _CALL.fullmatch(line):
            yield Call(int(match[1]), match[2], match[3], _result(match[4]), match[5], number, number)
        elif match := _RESUMED.fullmatch(line):
            name, arguments, began = open_calls.pop(int(match[1]))
            assert name == match[2], line
            rest = arguments + match[3]
            yield Call(int(match[1]), name, rest, _result(match[4]), match[5], began, number)
        elif match := _BEGUN.fullmatch(line):
            open_calls[int(match[1])] = (match[2], match[3], number)
        else:
            assert " +++ " in line or " --- " in line, f"strace said something unknown: {line[:200]}"


def _result(text: str) -> int | None:
    return None if text == "?" else int(text)


def _plain(text: str) -> str:
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), text)
